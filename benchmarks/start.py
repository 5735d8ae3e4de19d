"""How long the commands that train nothing take to answer, from the start of the process to its end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.processes import environment

BASE = """\
name = "start"
seed = 1
[vars]
rate = 0.1
[model]
type = "mlp"
in_features = 4
hidden = [5]
out_features = 3
[dataset.train]
type = "random"
length = 20
input_shape = [4]
classes = 3
[objective]
type = "cross_entropy"
[optimizer]
type = "sgd"
lr = 0.1
[train]
steps = 4
global_batch_size = 8
[hooks.checkpoint]
every = "2 steps"
"""
OTHERS = {
    "only a value differs": BASE.replace("lr = 0.1", "lr = 0.2"),
    "an argument is written out, equal to its default": BASE.replace("lr = 0.1", "lr = 0.1\nmomentum = 0.0"),
    "a key of the engine is written out": BASE.replace("steps = 4", 'steps = 4\nprecision = "fp32"')
    + '[scheduler]\ntype = "constant"\ninterval = "step"\n',
    "another type": BASE.replace('type = "sgd"', 'type = "adamw"'),
    "an interpolation, and an argument written out": BASE.replace(
        "lr = 0.1", 'lr = "${vars.rate}"\nmomentum = 0.0'
    ),
    "it extends the other": 'extends = "base.toml"\n[optimizer]\nmomentum = 0.0\n',
}
"""Files that are compared with ``BASE``, by what the difference is."""
RUNS = 3


@dataclass(frozen=True)
class Answer:
    """How long a command took to answer."""

    command: str
    seconds: tuple[float, ...]
    """Of each time, in order."""

    @property
    def median(self) -> float:
        return median(self.seconds)


def measure_starts(*, times: int) -> Iterator[Answer]:
    """Each command that trains nothing, called so many times; once more before, to fill the caches.

    Raises:
        RuntimeError: if a command fails; with its output.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, words in _commands(folder).items():
            _seconds(words, folder)
            yield Answer(title, tuple(_seconds(words, folder) for _ in range(times)))


def _commands(folder: Path) -> Mapping[str, Sequence[str]]:
    base = folder / "base.toml"
    base.write_text(BASE)
    for _ in range(RUNS):
        _seconds(["run", "base.toml"], folder)
    commands = {"--help": ["--help"], "components": ["components"], f"runs, of {RUNS}": ["runs"]}
    for number, (what, text) in enumerate(OTHERS.items()):
        (folder / f"{number}.toml").write_text(text)
        commands[f"diff of two files: {what}"] = ["diff", "base.toml", f"{number}.toml"]
    runs = sorted(path.name for path in (folder / "runs").iterdir() if (path / "run.json").exists())
    commands["diff of two runs"] = ["diff", *runs[:2]]
    return commands


def _seconds(words: Sequence[str], folder: Path) -> float:
    command = [sys.executable, "-m", "pipeline", *words]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:  # 1: diff has found a difference
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return seconds
