"""A failure's report does not show what the config hides."""

from __future__ import annotations

import pytest

from pipeline.api.settings import DistributedSettings
from pipeline.cli.ranks import RunFailedError, blamed
from pipeline.engine.position import Position
from pipeline.engine.signals import Signals
from pipeline.engine.world import World


def test_message_and_traceback_are_masked(monkeypatch):
    world = World.from_environment(DistributedSettings(device="cpu"))
    hidden = {"t0psecret": "${oc.env:TOKEN}"}
    token = next(iter(hidden))
    with (
        pytest.raises(RunFailedError) as caught,
        blamed((), world, Position(), None, Signals(), hidden),
    ):
        raise ValueError(f"cannot log in with {token}")
    failure = caught.value.failure
    assert failure.message == "cannot log in with ${oc.env:TOKEN}"
    assert "ValueError: cannot log in with ${oc.env:TOKEN}" in failure.traceback
    assert "t0psecret" not in str(caught.value) and "t0psecret" not in failure.traceback
