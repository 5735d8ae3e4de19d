"""CKP-01, CKP-10: a refusal or a kill at any of the system's operations harms no complete checkpoint."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from threading import get_native_id
from typing import Any

import pytest

from pipeline.runs.checkpoints import Checkpoints
from pipeline.runs.leftovers import hidden_name
from pipeline.runs.process import start_ticks
from pipeline.runs.retention import Retention, Score
from pipeline.runs.store import CheckpointStore, WriteError

OPERATIONS = ("mkdir", "rename", "replace", "fsync", "unlink", "rmdir")
"""What the store asks of the system besides writing."""


def content(step: int) -> dict[str, bytes]:
    return {"model.safetensors": bytes([step]) * 3000, "state.pt": bytes([step]) * 100}


def rig(patch: pytest.MonkeyPatch, at: int, act: Callable[[str], None]) -> None:
    """Make the ``at``-th operation from now (from 1) call ``act`` with its name first."""
    calls = 0

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                act(name)
            return real(*args, **kwargs)

        return operation

    for name in OPERATIONS:
        patch.setattr(os, name, wrap(name, getattr(os, name)))


def assert_sound(folder: Path, steps: set[int]) -> None:
    """Every checkpoint verifies and holds its own step's bytes, and the newest is one of ``steps``."""
    reader = Checkpoints(folder)
    for one in reader.checkpoints():
        assert reader.verify(one.name) == []
        assert (one.path / "state.pt").read_bytes() == content(one.step)["state.pt"]
    newest, _ = reader.newest_sound()
    assert newest is not None and newest.step in steps
    for ref in ("last", "best"):
        if (folder / ref).exists():
            step = reader.pointer(ref)
            assert step is not None and reader.at(step).path.is_dir(), "no name refers to what is not there"


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("number", [errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step"])
def test_every_operation_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, again: bool
) -> None:
    template = tmp_path / "template"
    first = CheckpointStore(template, retention=Retention(keep_last=1))
    first.save(1, content(1), score=Score("a", 0.5, "max"))
    first.save(2, content(2), score=Score("a", 0.4, "max"))
    step = 2 if again else 3
    at = 0
    while True:
        at += 1
        folder = tmp_path / f"{at}"
        shutil.copytree(template, folder)
        store = CheckpointStore(folder, retention=Retention(keep_last=1))
        failed: list[str] = []

        def refuse(name: str, failed: list[str] = failed) -> None:
            failed.append(name)
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            rig(patch, at, refuse)
            try:
                store.save(step, content(step), score=Score("a", 0.6, "max"))
            except WriteError as error:
                assert errno.errorcode[number] in str(error) and str(folder) in str(error)
                assert error.disk_full == (number == errno.EDQUOT)
        assert_sound(folder, {2, 3})
        store.clean()
        assert hidden(folder) == []
        assert_sound(folder, {2, 3})
        store.save(4, content(4), score=Score("a", 0.6, "max"))
        assert_sound(folder, {4})
        if not failed:
            break
    assert at > 12, "every operation had its turn"


def forked(work: Callable[[], None]) -> int:
    """Run ``work`` in a child process; its number."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step"])
def test_a_kill_before_every_operation(tmp_path: Path, again: bool) -> None:
    template = tmp_path / "template"
    first = CheckpointStore(template, retention=Retention(keep_last=1))
    for step in (1, 2):
        first.save(step, content(step), score=Score("a", 0.5, "max"))
    at, status = 0, signal.SIGKILL
    while status == signal.SIGKILL:
        at += 1
        folder = tmp_path / f"{at}"
        shutil.copytree(template, folder)

        def work(at: int = at, folder: Path = folder) -> None:
            store = CheckpointStore(folder, retention=Retention(keep_last=1))
            with pytest.MonkeyPatch.context() as patch:
                rig(patch, at, lambda _: os.kill(os.getpid(), signal.SIGKILL))
                store.save(2 if again else 3, content(2 if again else 3), score=Score("a", 0.6, "max"))

        status = os.waitpid(forked(work), 0)[1]
        assert status in (0, signal.SIGKILL)
        store = CheckpointStore(folder, retention=Retention(keep_last=1))
        if not again:
            assert_sound(folder, {2, 3})  # at once, also for readers who may not repair
        store.clean()
        assert hidden(folder) == []
        assert_sound(folder, {2, 3})
        assert store.resolve("last") == store.newest_sound()[0]
    assert at > 12, "every operation had its turn"


def test_kills_at_random_instants_of_a_run_that_saves_every_step(tmp_path: Path) -> None:
    """CKP-01 in small: fifteen attempts, each killed somewhere, each going on from the newest sound one."""
    store = CheckpointStore(tmp_path / "c", retention=Retention(keep_last=2))
    moment = random.Random(3)
    reached = 0
    for _ in range(15):

        def work(step: int = reached) -> None:
            while True:
                step += 1
                store.save(step, {"model": bytes([step % 256]) * 300_000, "state.pt": str(step).encode()})

        pid = forked(work)
        while max((one.step for one in store.checkpoints()), default=0) <= reached:
            time.sleep(0.001)
        time.sleep(moment.uniform(0, 0.04))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        newest, problems = store.newest_sound()
        assert newest is not None and problems == []
        assert newest.step >= reached
        assert (newest.path / "state.pt").read_text() == str(newest.step)
        store.clean()
        assert hidden(store.folder) == []
        assert store.resolve("last") == newest
        reached = newest.step
    assert reached >= 15


def leftover(kind: str, name: str, pid: int, started: int | None, host: str | None = None) -> str:
    """The hidden name of a process's unfinished ``name``."""
    mine = hidden_name(kind, name).rsplit("-", 3)
    return "-".join([mine[0], host or mine[1], str(pid), str(started or 0)])


def test_leftovers_of_living_processes_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-01: a process is told by boot, number and start; of another host's, by the age of its files."""
    store = CheckpointStore(tmp_path)
    parent, gone = os.getppid(), 2**22 + 1
    living = [
        leftover("tmp", "step-000001", parent, start_ticks(parent)),
        leftover("tmp", "step-000003", gone, 5, host="0" * 8),  # another host's, changed just now
    ]
    dead = [
        leftover("tmp", "step-000004", gone, 5),
        leftover("del", "step-000004", gone, None),
        leftover("tmp", "step-000005", parent, 5),  # another process has the number now
        leftover("tmp", "step-000006", os.getpid(), 5),
        leftover("tmp", "step-000007", gone, 5, host="0" * 8),  # another host's, long ago
        hidden_name("tmp", "step-000002"),  # of an earlier failure of this process
        leftover("tmp", "last-17", gone, 5),
    ]
    foreign = [".foreign", ".tmp-x", ".tmp-step-000001-7"]
    for name in (*living, *dead[:-1], *foreign):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    (tmp_path / dead[-1]).write_text("")
    long_ago = time.time() - 3600
    for path in (tmp_path / dead[4] / "file", tmp_path / dead[4]):
        os.utime(path, (long_ago, long_ago))
    monkeypatch.setattr(socket, "gethostname", lambda: "new-name")  # which says nothing
    assert set(store.clean()) == set(dead)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*living, *foreign])


def test_everything_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path / "c", retention=Retention(keep_last=1))
    store.save(1, content(1))
    events: list[str] = []
    mark = hidden_name("tmp", "").removeprefix(".tmp--")
    thread = str(get_native_id())

    def spy(name: str, show: Callable[..., str]) -> None:
        real = getattr(os, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            events.append(f"{name} {show(*args).replace(mark, 'MARK').replace(thread, 'THREAD')}")
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, operation)

    spy("fsync", lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink().name)
    spy("rename", lambda _, target: Path(target).name)
    spy("replace", lambda _, target: Path(target).name)
    store.save(2, content(2))
    assert events == [
        "fsync model.safetensors",
        "fsync state.pt",
        "fsync manifest.json",
        "fsync .tmp-step-000002-MARK",
        "rename step-000002",
        "fsync c",
        "fsync .tmp-last-THREAD-MARK",
        "replace last",
        "fsync c",
        "rename .del-step-000001-MARK",
    ]
