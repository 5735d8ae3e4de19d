"""What no test may leave behind it. Each guard restores what it watches, then tells what it found."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
GRACE_SECONDS = 10.0  # for threads that are ending
NOT_THE_TESTS = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR")  # set by pytest and by torch themselves

Complain = Callable[[str], None]


@contextmanager
def environment(complain: Complain) -> Iterator[None]:
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    if changed := [name for name in changed if name not in NOT_THE_TESTS]:
        complain(f"environment variables changed: {', '.join(changed)}")
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in changed if name in before})


@contextmanager
def working_folder(complain: Complain) -> Iterator[None]:
    before = Path.cwd()
    yield
    if Path.cwd() != before:
        complain(f"working folder changed to {Path.cwd()}")
        os.chdir(before)


@contextmanager
def signal_handlers(complain: Complain) -> Iterator[None]:
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            complain(f"handler of {signal.Signals(number).name} changed to {signal.getsignal(number)}")
            signal.signal(number, handler)


@contextmanager
def threads(complain: Complain) -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(GRACE_SECONDS)
            if thread.is_alive():
                complain(f"thread left running: {thread.name}")


@contextmanager
def child_processes(complain: Complain) -> Iterator[None]:
    before = _children()
    yield
    if left := _children() - before:
        complain(f"child processes left: {sorted(left)}")


def _children() -> set[int]:
    """Processes that this one started and has not waited for; none where the system does not tell."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


@contextmanager
def source_tree(complain: Complain) -> Iterator[None]:
    before = _entries()
    yield
    if left := _entries() - before:
        complain(f"files left in the source tree: {', '.join(sorted(left))}")


def _entries() -> set[str]:
    """The places where a relative path of a careless test ends: the root, runs/ and docs/."""
    folders = [folder for folder in (ROOT, ROOT / "runs", ROOT / "docs") if folder.is_dir()]
    paths = (path for folder in folders for path in folder.iterdir())
    return {str(path.relative_to(ROOT)) for path in paths if not path.name.startswith((".", "__pycache__"))}


@contextmanager
def random_streams(complain: Complain) -> Iterator[None]:
    """Seeding is allowed, and ends with the test: no test sees what another one drew."""
    state = random.getstate()
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch else None
    yield
    random.setstate(state)
    if torch:
        torch.set_rng_state(torch_state)


@contextmanager
def torch_settings(complain: Complain) -> Iterator[None]:
    """Torch's own switches; a test that is the first to import torch is not watched."""
    torch = sys.modules.get("torch")
    before = _torch_settings(torch) if torch else {}
    yield
    after = _torch_settings(torch) if torch else {}
    for name in [name for name in before if after[name] != before[name]]:
        complain(f"torch's {name} changed from {before[name]} to {after[name]}")
        _restore_torch(torch, name, before[name])


def _torch_settings(torch: Any) -> dict[str, Any]:
    return {
        "default dtype": torch.get_default_dtype(),
        "deterministic mode": torch.get_deterministic_debug_mode(),
        "number of threads": torch.get_num_threads(),
        "grad mode": torch.is_grad_enabled(),
        "cudnn settings": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "process group": torch.distributed.is_initialized(),
    }


def _restore_torch(torch: Any, name: str, value: Any) -> None:
    match name:
        case "default dtype":
            torch.set_default_dtype(value)
        case "deterministic mode":
            torch.set_deterministic_debug_mode(value)
        case "number of threads":
            torch.set_num_threads(value)
        case "grad mode":
            torch.set_grad_enabled(value)
        case "cudnn settings":
            torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = value
        case "process group" if not value:
            torch.distributed.destroy_process_group()


GUARDS = (
    environment,
    working_folder,
    signal_handlers,
    threads,
    child_processes,
    source_tree,
    random_streams,
    torch_settings,
)
