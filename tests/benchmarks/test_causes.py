"""A side that fails is missing from the page, with what its own output says of the cause."""

from __future__ import annotations

import pytest

from benchmarks import compare
from benchmarks.sides import Side

TWO = """\
import os, signal, sys, torch
torch.distributed.init_process_group("gloo")
if torch.distributed.get_rank() == 1:
    {failure}
torch.distributed.all_reduce(torch.ones(1))  # on rank 0: it has lost its peer
"""


@pytest.fixture
def why(tmp_path, monkeypatch):
    """Why a side with this program is missing."""
    failing = Side("Failing", "", lambda job, world_size: ["failing_side"])
    monkeypatch.setitem(compare.SIDES, failing.name, failing)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def why(program: str, world_size: int) -> str:
        (tmp_path / "failing_side.py").write_text(program)
        return compare.compare(compare.Case("linear", world_size), ["Failing"], rounds=1).missing["Failing"]

    return why


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        ('raise ValueError("no such luck")', "ValueError: no such luck"),
        ("assert False", "AssertionError"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 ended with -9 (SIGKILL)"),
        ("sys.exit(3)", "rank 1 ended with 3"),
    ],
)
def test_of_two_ranks_it_is_of_the_one_that_failed_first(why, failure, cause):
    assert why(TWO.format(failure=failure), 2) == cause


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        ("print('=====')\nraise KeyError('lr')", "KeyError: 'lr'"),
        ("import sys\nsys.exit('=====\\nno such thing\\n=====')", "no such thing"),
        ("", "-m failing_side ended with 0"),
    ],
)
def test_of_one_it_is_the_last_line_that_says_something(why, program, cause):
    assert why(program, 1).endswith(cause)
