from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.runs.layout import RunFolder
from pipeline.runs.liveness import SILENCE, beating, duration, status_now
from pipeline.runs.process import is_alive, is_stopped, process_table, start_ticks
from pipeline.runs.record import Attempt, Record, write

MakeRecord = Callable[..., Record]


def sleeper() -> int:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid


def test_a_process_is_alive_until_it_is_gone_and_never_its_successor() -> None:
    pid = sleeper()
    started = start_ticks(pid)
    assert started is not None
    assert is_alive(pid, started) and is_alive(pid)
    assert not is_alive(pid, started + 1), "a later process of the same number"
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(pid, started), "a zombie does nothing any more"
    os.waitpid(pid, 0)
    assert not is_alive(pid, started)


def test_a_stopped_process_is_alive() -> None:
    pid = sleeper()
    assert not is_stopped(pid)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    assert is_stopped(pid) and is_alive(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert not is_stopped(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a process namespace")
def test_process_numbers_of_a_container_are_its_own() -> None:
    ask = "from pipeline.runs.process import process_table; print(process_table())"
    contained = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ask]
    inside = subprocess.run(contained, check=True, capture_output=True, text=True).stdout.strip()
    beside = subprocess.run(contained[4:], check=True, capture_output=True, text=True).stdout.strip()
    assert inside and inside != process_table() == beside


@pytest.mark.parametrize("pid", [0, -1, 2**70])
def test_numbers_that_are_no_process(pid: int) -> None:
    assert not is_alive(pid)


def test_running_is_doubted_where_the_process_is_gone(tmp_path: Path, make_record: MakeRecord) -> None:
    folder, mine = RunFolder(tmp_path), make_record()
    assert status_now(folder, mine) == "running"
    assert status_now(folder, replace(mine, process_started=1)) == "interrupted"
    assert status_now(folder, replace(mine, process_started=1, status="stopped")) == "stopped"


def test_another_hosts_run_lives_while_it_gives_signs(tmp_path: Path, make_record: MakeRecord) -> None:
    folder, far = RunFolder(tmp_path), make_record(host="elsewhere", process_table="elsewhere", pid=1)
    write(folder, far)
    assert status_now(folder, far) == "running"
    old = time.time() - SILENCE - 60
    os.utime(folder.record, (old, old))
    assert status_now(folder, far) == "interrupted"
    folder.metrics.write_text("")
    assert status_now(folder, far) == "running"
    os.utime(folder.metrics, (old, old))
    with beating(folder, interval=0.01):
        deadline = time.monotonic() + 30
        while status_now(folder, far) != "running":
            assert time.monotonic() < deadline
            time.sleep(0.01)


def silent_for(folder: RunFolder, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder.record, (then, then))


def test_a_host_is_told_by_its_processes_and_not_by_its_name(tmp_path: Path, make_record: MakeRecord) -> None:
    """This host under another name, another of this one's name, and this one before it was started anew."""
    folder = RunFolder(tmp_path)
    renamed, namesake = make_record(host="former-name"), make_record(process_table="elsewhere", pid=2**22)
    write(folder, renamed)
    silent_for(folder, 2 * SILENCE)
    assert status_now(folder, renamed) == "running", "its process is here"
    assert status_now(folder, replace(renamed, process_started=1)) == "interrupted"
    assert status_now(folder, namesake) == "interrupted"
    silent_for(folder, SILENCE / 10 + 30)
    assert status_now(folder, namesake) == "running", "its number says nothing here, and it has beaten"
    silent_for(folder, SILENCE / 2)
    assert status_now(folder, namesake) == "interrupted"
    assert status_now(folder, replace(namesake, host="far")) == "running", "its clock may be another"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a process namespace")
def test_a_container_of_the_same_name_does_not_take_a_living_run_for_gone(
    tmp_path: Path, make_record: MakeRecord
) -> None:
    folder = RunFolder(tmp_path)
    write(folder, make_record())
    ask = """if True:
        import sys
        from pathlib import Path
        from pipeline.runs.layout import RunFolder
        from pipeline.runs.liveness import status_now
        from pipeline.runs.record import read
        folder = RunFolder(Path(sys.argv[1]))
        print(status_now(folder, read(folder)))
    """
    contained = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ask, str(tmp_path)]
    said = subprocess.run(contained, check=True, capture_output=True, text=True).stdout
    assert said.strip() == "running"


def test_records_of_earlier_versions_are_told_by_the_hosts_name(
    tmp_path: Path, make_record: MakeRecord
) -> None:
    folder, former = RunFolder(tmp_path), make_record(process_table=None)
    write(folder, former)
    assert status_now(folder, former) == "running"
    assert status_now(folder, replace(former, process_started=1)) == "interrupted"


def test_duration_adds_the_attempts_and_ends_an_interrupted_one_at_its_last_sign(
    tmp_path: Path, make_record: MakeRecord
) -> None:
    folder = RunFolder(tmp_path)
    dead = make_record(process_started=1)
    first = Attempt(
        dead.created, "h", 1, 1, "stopped", ended=dead.created + timedelta(seconds=30), last_step=5
    )
    second = Attempt(dead.created + timedelta(hours=1), "h", 2, 6)
    dead = replace(dead, attempts=(first, second))
    write(folder, dead)
    sign = second.started.timestamp() + 12
    os.utime(folder.record, (sign, sign))
    assert duration(folder, dead) == pytest.approx(42)
