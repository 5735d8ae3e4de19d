"""A side that fails is missing from the page, with what its own output says of the cause."""

from __future__ import annotations

import pytest

from benchmarks import compare
from benchmarks.cause import cause_in
from benchmarks.measured import Measured, here_and_now
from benchmarks.meter import Speed
from benchmarks.report import page
from benchmarks.sides import ENGINE, Side

TWO = """\
import os, signal, sys, time, torch
torch.distributed.init_process_group("gloo")
if torch.distributed.get_rank() == 1:
    {failure}
try:
    torch.distributed.all_reduce(torch.ones(1))
except RuntimeError:  # rank 0 has lost its peer; of two that end in one second torchrun blames the first
    sys.excepthook(*sys.exc_info())
    time.sleep(60)  # torchrun ends it
"""

TORCHRUN = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
=======================================================
failing_side FAILED
-------------------------------------------------------
Failures:
[1]:
  time      : 2026-12-03_12:22:33
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 6)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 6
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-03_12:22:33
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {exitcode}
  error_file: <N/A>
=======================================================
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


def test_torchrun_says_which_of_two_ranks_it_was(why):
    killed = TWO.format(failure="os.kill(os.getpid(), signal.SIGKILL)")
    assert why(killed, 2) == "rank 1 ended with -9 (SIGKILL)"
    assert why(TWO.format(failure='raise ValueError("no such luck")'), 2) == "ValueError: no such luck"


@pytest.mark.parametrize(
    ("said", "exitcode", "cause"),
    [
        (["[rank1]: AssertionError", "[rank0]: RuntimeError: lost a peer"], "1 (pid: 7)", "AssertionError"),
        (["[rank1]: ValueError: x", "RuntimeError: rank 0 lost a peer"], "1 (pid: 7)", "ValueError: x"),
        (["ValueError: before there is a group"], "1 (pid: 7)", "ValueError: before there is a group"),
        (["[rank0]: RuntimeError: lost a peer"], "3 (pid: 7)", "rank 1 ended with 3"),
        (["RuntimeError: lost a peer"], "3 (pid: 7)", "rank 1 ended with 3"),
        (["RuntimeError: lost a peer"], "-6 (pid: 7)  (SIGABRT)", "rank 1 ended with -6 (SIGABRT)"),
    ],
)
def test_of_two_ranks_it_is_of_the_one_that_failed_first(said, exitcode, cause):
    assert cause_in("\n".join([*said, TORCHRUN.format(exitcode=exitcode)])) == cause


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


def test_a_cause_is_one_cell_of_the_table():
    speeds = {ENGINE: [Speed(1, 1.0, 1.0, 1.0, 1.0)]}
    comparison = compare.Comparison(compare.Case("linear", 1), speeds, {"Failing": "TypeError: int | None"})
    shown = page([Measured(comparison, here_and_now())], [])
    assert r"| Failing | TypeError: int \| None |  |  |  |  |  |" in shown.splitlines()
