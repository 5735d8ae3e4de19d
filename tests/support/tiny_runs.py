"""Runs that take no time, made in this process, and the commands that look at them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

import pipeline
from pipeline.cli.main import main
from pipeline.config.config import Config

TINY = """\
name = "tiny"
seed = 1

[vars]
classes = 3

[model]
type = "mlp"
in_features = 4
hidden = [5]
out_features = "${vars.classes}"

[dataset.train]
type = "random"
length = 20
input_shape = [4]
classes = "${vars.classes}"

[dataset.eval]
type = "random"
length = 6
input_shape = [4]
classes = "${vars.classes}"

[objective]
type = "cross_entropy"

[optimizer]
type = "sgd"
lr = 0.1

[metrics.accuracy]

[train]
steps = 4
global_batch_size = 8
evaluate_every = "2 steps"
deterministic = false  # true sets an environment variable of this process for good

[hooks.checkpoint]
every = "2 steps"
monitor = "eval/accuracy"
mode = "max"
"""


def write_tiny(folder: Path, extra: str = "", name: str = "tiny.toml") -> Path:
    """A config of a run of 4 steps; ``extra`` is TOML to put on top of it."""
    folder.mkdir(exist_ok=True)
    (folder / "base.toml").write_text(TINY)
    path = folder / name
    path.write_text(f'extends = "base.toml"\n{extra}')
    return path


def train(config: Path, runs_dir: Path, *overrides: str) -> Path:
    """The folder of a new run."""
    return trained(pipeline.load_config(config, overrides=overrides), runs_dir)


def trained(config: Config, runs_dir: Path) -> Path:
    """The folder of a new run of a config that is loaded."""
    before = set(runs_dir.iterdir()) if runs_dir.exists() else set()
    pipeline.run(config, runs_dir=runs_dir)
    (folder,) = set(runs_dir.iterdir()) - before
    return folder


def call(*arguments: object) -> Result:
    """``pipeline ARGUMENTS`` in this process."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def modules_of(*arguments: object) -> set[str]:
    """What ``pipeline ARGUMENTS`` imports, in a process of its own."""
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from pipeline.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return set(done.stderr.split())
