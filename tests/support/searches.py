"""A config whose metric to better is what it says itself, and what became of searches in it."""

from __future__ import annotations

import json
from contextlib import contextmanager

from tiny_runs import TINY

PARTS = """\
import json, os, time
from pathlib import Path
import torch
from pipeline import Hook, Metric, register

@register("metric", "told")
class Told(Metric):
    def __init__(self, value: float):
        super().__init__()
        self.told = self.add_state("told", torch.tensor(value, dtype=torch.float64), "max")

    def update(self, outcome):
        pass

    def compute(self):
        return self.told

@register("hook", "moody")
class Moody(Hook):
    def on_step_end(self, run):
        time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
        if '"number": 1,' in os.environ.get("PIPELINE_OPTUNA_TRIAL", ""):
            time.sleep(float(os.environ.get("SECOND_TRIAL_SECONDS", 0)))
        if run.step == int(os.environ.get("KILL_AT", -1)):
            os.kill(os.getpid(), 9)
        if "EDIT" in os.environ:
            file, was, edited = json.loads(os.environ["EDIT"])
            text = Path(file).read_text()
            Path(file).write_text(text.replace(was, edited))
        if run.step == 4 and "STOP_FOR" in os.environ:
            run.stop(os.environ["STOP_FOR"])
        if float(os.environ.get("FAIL_ABOVE", 1)) < run.metrics.get("eval/told", 0):
            raise OSError("no such luck")
"""

SEARCH = ["--search", "metrics.told.value=float(0, 1)"]


def write_config(folder):
    (folder / "parts.py").write_text(PARTS)
    text = TINY.replace('monitor = "eval/accuracy"', 'monitor = "eval/told"')
    text += "[hooks.moody]\n[metrics.told]\nvalue = 0.0\n"
    (folder / "tiny.toml").write_text(f'components = ["parts.py"]\n{text}')
    return folder / "tiny.toml"


@contextmanager
def optuna_study(runs_dir):
    """The only study there, as Optuna itself reads it."""
    import optuna

    (file,) = runs_dir.glob("sweeps/*/study.db")
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
    yield optuna.load_study(study_name=file.parent.name, storage=storage)
    storage.remove_session()
    storage.engine.dispose()


def trials(runs_dir):
    with optuna_study(runs_dir) as study:
        return study.get_trials()


def record(runs_dir, name):
    return json.loads((runs_dir / name / "run.json").read_text())


def run_names(runs_dir):
    return sorted(folder.name for folder in runs_dir.glob("tiny-*"))
