"""What a forked rank does between its birth and its exit status."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import pickle
import runpy
import signal
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.request import Call, Command, Request

SHOW_STACKS = signal.SIGQUIT
"""Makes a rank write where each of its threads stands to standard error."""


def run_rank(request: Request, rank: int, environ: dict[str, str]) -> int:
    """Become the process that the request describes, and give its exit status."""
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _redirect_output(request.folder, rank)
    faulthandler.register(SHOW_STACKS, file=sys.stderr)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(request.cwd)
    try:
        if isinstance(request.target, Command):
            return _run_command(request.target)
        result = _run_call(request.target)
        (request.folder / f"rank-{rank}.result").write_bytes(pickle.dumps(result))
    except SystemExit as stop:
        return _status(stop)
    except BaseException:  # noqa: BLE001 - what the interpreter itself does with an exception that nobody caught
        traceback.print_exc()
        return 1
    return 0


def _redirect_output(folder: Path, rank: int) -> None:
    for descriptor, ending in ((1, "out"), (2, "err")):
        file = os.open(folder / f"rank-{rank}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def _run_command(command: Command) -> int:
    sys.path[:0] = [str(Path.cwd()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["pipeline", *command.arguments]
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
    return 0


def _run_call(call: Call) -> Any:
    function: Any = _load(call)
    for part in call.function.split("."):
        function = getattr(function, part)
    return function(*pickle.loads(call.arguments))


def _load(call: Call) -> ModuleType:
    """The test file as a module under the name that pytest gave it, so that pickles fit both ways."""
    if call.module in sys.modules:
        return sys.modules[call.module]
    spec = importlib.util.spec_from_file_location(call.module, call.file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[call.module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _status(stop: SystemExit) -> int:
    """The exit status that the interpreter makes of ``sys.exit(code)``."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1
