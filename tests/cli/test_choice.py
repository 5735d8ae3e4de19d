"""What the other ranks learn where rank 0 does not begin."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from pipeline import ConfigError, RunError
from pipeline.cli.choice import RefusedError, await_choice, tell_choice
from pipeline.engine.signals import EarlyStop


@pytest.mark.parametrize(
    ("why", "status"), [(EarlyStop(signal.SIGTERM), 75), (ConfigError([]), 2), (RunError("no"), 1)]
)
def test_the_others_leave_with_the_status_of_rank_0(why, status):
    """LCH-02: a signal to rank 0 alone, while it decides, is no failure on the others either."""

    def decide() -> str:
        raise why

    store = dist.HashStore()
    with ThreadPoolExecutor() as others:
        other = others.submit(await_choice, store, 1, {})
        with pytest.raises(type(why)):
            tell_choice(store, 2, decide)
        with pytest.raises(RefusedError) as refused:
            other.result(timeout=10)
    assert refused.value.status == status
