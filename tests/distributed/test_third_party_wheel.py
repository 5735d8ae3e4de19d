"""A package of somebody else: built, installed, trained with, uninstalled.

The wheel's source is in tests/support/thirdparty/acme-vision.
"""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from runs_of import only_run, record_of, rows_of

SOURCE = Path(__file__).parent.parent / "support" / "thirdparty" / "acme-vision"
VERSION = "3.1.4"
COMPONENTS = {  # all that it offers
    ("model", "row_pooling"),
    ("model", "mlp"),
    ("dataset", "stripes"),
    ("optimizer", "sign_descent"),
    ("metric", "confidence"),
    ("hook", "weight_norm"),
}

CONFIG = """\
name = "stripes"
seed = 5

[model]
type = "row_pooling"
height = 6
classes = 6

[dataset.train]
type = "stripes"
length = 62
height = 6

[dataset.eval]
type = "stripes"
length = 31
height = 6

[objective]
type = "cross_entropy"

[optimizer]
type = "sign_descent"
lr = 0.05

[metrics.accuracy]
[metrics.confidence]

[train]
epochs = 4
global_batch_size = 8

[hooks.weight_norm]
"""


NAMED = {  # by a line of the config: the kind and the name in it that only the wheel has
    'type = "row_pooling"': ("model", "row_pooling"),
    'type = "stripes"': ("dataset", "stripes"),
    'type = "sign_descent"': ("optimizer", "sign_descent"),
    "[metrics.confidence]": ("metric", "confidence"),
    "[hooks.weight_norm]": ("hook", "weight_norm"),
}


@dataclass(frozen=True)
class Environment:
    """A fresh environment that pip works on; processes see its packages through PYTHONPATH."""

    folder: Path

    @property
    def packages(self) -> Path:
        return self.folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"

    @property
    def variables(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.packages)}

    def pip(self, *arguments: str) -> None:
        run_python("-m", "pip", "--python", str(self.folder), "--disable-pip-version-check", *arguments)


def run_python(*arguments: str) -> None:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    run_python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Environment:
    """One with the wheel in it, for the tests that only use it."""
    return installed(wheel, tmp_path_factory.mktemp("environment"))


def installed(wheel: Path, folder: Path) -> Environment:
    venv.create(folder, symlinks=True)
    fresh = Environment(folder)
    fresh.pip("install", "--no-deps", "--no-index", str(wheel))
    return fresh


def write(folder: Path, text: str = CONFIG) -> Path:
    path = folder / "stripes.toml"
    path.write_text(text)
    return path


def listed(command, environment: Environment) -> set[tuple[str, str, str]]:
    """Kind, name and version of what ``pipeline components`` shows of the package."""
    job = command(1, ["components", "--json"], env=environment.variables, launcher=False)
    assert job.wait() == [0], job.report()
    rows = [row for row in json.loads(job.stdout(0)) if row["distribution"] == "acme-vision"]
    return {(row["kind"], row["name"], row["version"]) for row in rows}


def import_without_pipeline(packages: str) -> list[str]:
    """The parts of the wheel that can be imported where there is no package ``pipeline``."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipeline"]:
        del sys.modules[name]
    sys.modules["pipeline"] = None  # any import of it fails from here on
    sys.path.insert(0, packages)
    good = []
    for part in ("models", "datasets", "optimizers", "metrics", "hooks"):
        try:
            importlib.import_module(f"acme_vision.{part}")
        except ModuleNotFoundError as error:
            assert error.name == "pipeline"
        else:
            good.append(part)
    return good


def test_its_model_dataset_and_optimizer_do_not_import_pipeline(environment, ranks):
    assert ranks(1, import_without_pipeline, str(environment.packages)) == [
        ["models", "datasets", "optimizers"]
    ]


def test_two_ranks_under_torchrun_train_with_it(environment, torchrun, command, tmp_path):
    assert listed(command, environment) == {(*component, VERSION) for component in COMPONENTS}
    arguments = ["run", write(tmp_path), "--runs-dir", tmp_path / "runs"]
    launcher = torchrun(2, arguments, env=environment.variables)
    assert launcher.wait() == 0, launcher.output()
    folder = only_run(tmp_path / "runs")
    record = record_of(folder)
    assert (record["status"], record["world_size"], record["steps"]) == ("completed", 2, 32)
    origins = {
        (part["kind"], part["type"], part["module"], part["version"])
        for part in record["components"]
        if part["distribution"] == "acme-vision"
    }
    assert origins == {
        ("model", "row_pooling", "acme_vision.models", VERSION),
        ("dataset", "stripes", "acme_vision.datasets", VERSION),
        ("optimizer", "sign_descent", "acme_vision.optimizers", VERSION),
        ("metric", "confidence", "acme_vision.metrics", VERSION),
        ("hook", "weight_norm", "acme_vision.hooks", VERSION),
    }
    assert record["versions"]["acme-vision"] == VERSION
    assert record["metrics"]["eval/accuracy"] == 1
    rows = rows_of(folder)
    assert len([row for row in rows if "eval/confidence" in row]) == 4
    assert any("weight_norm" in row for row in rows)


def test_a_name_that_a_built_in_has_too_must_be_qualified(environment, command, tmp_path):
    def run(model: str) -> tuple[int, str]:
        text = CONFIG.replace('type = "row_pooling"\nheight = 6\nclasses = 6', model)
        arguments = ["run", write(tmp_path, text), "--runs-dir", tmp_path / "runs", "--set", "train.epochs=1"]
        job = command(1, arguments, env=environment.variables, launcher=False)
        return job.wait()[0], job.stderr(0)

    status, errors = run('type = "mlp"\npixels = 36\nclasses = 6')
    assert status == 2
    (line,) = errors.splitlines()
    assert line.startswith(f"{tmp_path / 'stripes.toml'}:5:")
    for words in (
        "'mlp'",
        "pipeline-ddp 0.1.0",
        f"acme-vision {VERSION}",
        '"acme-vision/mlp"',
        '"pipeline-ddp/mlp"',
    ):
        assert words in line
    assert not (tmp_path / "runs").exists()

    for distribution, arguments in (
        ("acme-vision", "pixels = 36\nclasses = 6"),
        ("pipeline-ddp", "in_features = 36\nhidden = []\nout_features = 6"),
    ):
        status, errors = run(f'type = "{distribution}/mlp"\n{arguments}')
        assert status == 0, errors
        newest = max((tmp_path / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime)
        model = record_of(newest)["components"][0]
        assert (model["kind"], model["distribution"]) == ("model", distribution)


def test_once_uninstalled_its_names_are_unknown_and_nothing_is_created(wheel, command, tmp_path):
    environment = installed(wheel, tmp_path / "environment")
    assert len(listed(command, environment)) == len(COMPONENTS)
    environment.pip("uninstall", "--yes", "acme-vision")
    assert listed(command, environment) == set()
    config = write(tmp_path)
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"], env=environment.variables)
    statuses = job.wait()
    # the launcher may end rank 1 before it has found the same by itself
    assert statuses[0] == 2 and statuses[1] in (2, 75, -signal.SIGTERM), job.report()
    assert job.stderr(1) == ""  # once for all ranks
    errors = [line for line in job.stderr(0).splitlines() if line.startswith(f"{config}:")]
    places = [(number, line) for number, line in enumerate(CONFIG.splitlines(), 1) if line in NAMED]
    for (number, line), error in zip(places, errors, strict=True):
        kind, name = NAMED[line]
        assert error.startswith(f"{config}:{number}:")
        assert f"there is no {kind} '{name}'" in error
        assert f"pipeline.{kind}s" in error  # where it was looked for
    assert "Traceback" not in job.stderr(0)
    assert not (tmp_path / "runs").exists()
