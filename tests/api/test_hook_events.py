"""The hook base class: its events, and the page in its docstring that shows them all."""

from __future__ import annotations

import re

from pipeline.api.hook import EVENTS, Hook


def test_the_events_are_these():
    assert EVENTS == (
        "on_run_start",
        "on_epoch_start",
        "on_step_end",
        "on_evaluate_end",
        "on_epoch_end",
        "on_exception",
        "on_run_end",
    )


def test_the_page_shows_every_event_and_no_other():
    shown = set(re.findall(r"\b(on_\w+)\(", Hook.__doc__ or ""))
    assert shown == set(EVENTS)


def test_a_hook_has_no_state_of_its_own():
    assert Hook().state_dict() == {}
    assert Hook.ranks == "main"
    assert Hook.checkpoint_policy is None
