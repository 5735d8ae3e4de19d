"""The guards see what they are for, and put it right."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading

import pytest

import guards


def complaints_of(guard, misdeed) -> list[str]:
    complaints: list[str] = []
    with guard(complaints.append):
        misdeed()
    return complaints


def test_a_quiet_test_passes_every_guard():
    for guard in guards.GUARDS:
        assert complaints_of(guard, lambda: None) == []


def test_environment():
    home = os.environ["PATH"]
    complaints = complaints_of(guards.environment, lambda: os.environ.update(PATH="/nowhere", NEW="1"))
    assert complaints == ["environment variables changed: NEW, PATH"]
    assert os.environ["PATH"] == home and "NEW" not in os.environ


def test_working_folder(tmp_path):
    assert complaints_of(guards.working_folder, lambda: os.chdir(tmp_path))


def test_signal_handlers():
    misdeed = lambda: signal.signal(signal.SIGUSR2, lambda *_: None)  # noqa: E731
    assert complaints_of(guards.signal_handlers, misdeed)[0].startswith("handler of SIGUSR2 changed")
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_threads(monkeypatch):
    monkeypatch.setattr(guards, "GRACE_SECONDS", 0.0)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="lingerer")
    assert complaints_of(guards.threads, thread.start) == ["thread left running: lingerer"]
    end.set()
    thread.join()


def test_child_processes():
    started = []
    misdeed = lambda: started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1))  # noqa: E731
    complaints = complaints_of(guards.child_processes, misdeed)
    started[0].communicate(b"\n")
    assert complaints == [f"child processes left: [{started[0].pid}]"]


def test_source_tree(tmp_path, monkeypatch):
    monkeypatch.setattr(guards, "ROOT", tmp_path)
    (tmp_path / "runs").mkdir()
    misdeed = (tmp_path / "runs" / "left").mkdir
    assert complaints_of(guards.source_tree, misdeed) == ["files left in the source tree: runs/left"]


def test_random_streams_end_with_the_test():
    import torch

    def draw() -> None:
        random.random()
        torch.rand(1)

    before = random.getstate(), torch.get_rng_state()
    assert complaints_of(guards.random_streams, draw) == []
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize(
    "misdeed",
    [
        lambda torch: torch.set_default_dtype(torch.float64),
        lambda torch: torch.use_deterministic_algorithms(True),
        lambda torch: torch.set_num_threads(torch.get_num_threads() + 1),
        lambda torch: torch.set_grad_enabled(False),
        lambda torch: setattr(torch.backends.cudnn, "benchmark", True),
        lambda torch: torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        ),
    ],
    ids=["dtype", "determinism", "threads", "grad", "cudnn", "group"],
)
def test_torch_settings(misdeed):
    import torch

    assert len(complaints_of(guards.torch_settings, lambda: misdeed(torch))) == 1
    assert complaints_of(guards.torch_settings, lambda: None) == []
    assert not torch.distributed.is_initialized()
