"""Texts from the environment and secret keys are nowhere to be read, however a run ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from runs_of import only_run, record_of

PARTS = """
import os, signal, time
from pydantic import BaseModel, SecretStr
from pipeline import Hook, register

class Login(BaseModel):
    user: str
    key: SecretStr

@register("hook", "leaky")
class Leaky(Hook):
    ranks = "all"

    def __init__(
        self, ending: str, token: str, url: str, password: SecretStr, login: Login,
        keys: list[SecretStr] = [], note: SecretStr = SecretStr("none"),
    ) -> None:
        self.ending, self.token, self.url = ending, token, url
        self.secrets = [password, login.key, note, *keys]

    def on_step_end(self, run):
        if run.step == 5 and self.ending == "crash":
            while not list(run.folder.glob("checkpoints/step-*")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        if run.step == 3 and self.ending == "failure":
            texts = [secret.get_secret_value() for secret in self.secrets]
            raise ValueError(f"{self.token!r} at {self.url} is refused, {texts}")
"""

CONFIG = """\
name = "t"
seed = 3
components = ["leaky_parts.py"]

[vars]
where = "http://${oc.env:PLANTED_USER}@host"

[model]
type = "mlp"
in_features = 64
hidden = [8]
out_features = 10

[dataset.train]
type = "digits"

[objective]
type = "cross_entropy"

[optimizer]
type = "adamw"

[train]
steps = 6
global_batch_size = 64

[hooks.checkpoint]
every = "2 steps"

[hooks.tensorboard]

[hooks.leaky]
ending = "success"
token = "${oc.env:PLANTED_TOKEN}"
url = "${vars.where}/x"
password = "planted-\\"in\\"-the-f\u00efle"
login = { user = "me", key = "planted-in-a-table" }
keys = ["planted-in-an-array"]
"""

ENVIRONMENT = {"PLANTED_TOKEN": "planted 'token'\\with \"signs\"", "PLANTED_USER": "planted-user"}
PLANTED = [
    *ENVIRONMENT.values(),
    'planted-"in"-the-f\u00efle',
    "planted-in-a-table",
    "planted-in-an-array",
    "planted-by-set",
]
OPTIONS = ["--set", "hooks.leaky.note=planted-by-set"]
TRACKERS = [
    *("--set", "hooks.mlflow={tracking_uri='sqlite:///mlflow.db', experiment='trials'}"),
    *("--set", "hooks.wandb={mode='offline'}"),
]
VARIABLES = {
    "HOOKS_LEAKY_PASSWORD": "a",
    "HOOKS_LEAKY_LOGIN_KEY": "b",
    "HOOKS_LEAKY_KEYS_0": "c",
    "HOOKS_LEAKY_NOTE": "d",
}
"""What config.toml has in the place of the secrets."""


def leaks_in(where: str, data: bytes) -> list[str]:
    """Which planted texts a piece of data has, in any form that a program would write."""
    return [
        f"{where}: {text!r}"
        for text in PLANTED
        for form in {text, repr(text)[1:-1], *(json.dumps(text, ensure_ascii=a)[1:-1] for a in (True, False))}
        if form.encode() in data
    ]


def leaks_below(folder: Path) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            found += leaks_in(str(path.relative_to(folder)), path.read_bytes())
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    for name in archive.namelist():
                        found += leaks_in(f"{path.name}/{name}", archive.read(name))
    return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a config and its component, both not committed."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "leaky_parts.py").write_text(PARTS)
    (folder / "pipeline.toml").write_text(CONFIG)
    (folder / ".gitignore").write_text("runs\n")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    if shutil.which("git"):
        for words in ("init -q", "add .gitignore", "-c user.name=n -c user.email=e commit -qm x"):
            subprocess.run(["git", "-C", folder, *words.split()], check=True)
    return folder


def environment() -> dict[str, str]:
    return {**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": os.environ["GIT_CEILING_DIRECTORIES"]}


@pytest.mark.parametrize(("ending", "status"), [("success", 0), ("failure", 1), ("crash", -9)])
def test_no_planted_text_is_anywhere(command, project, monkeypatch, ending, status):
    """TRK-04: the run folder, logs, errors, trackers, checkpoints, code.patch, and what commands print."""
    job = command(
        2,
        ["run", "pipeline.toml", *OPTIONS, *TRACKERS, "--set", f"hooks.leaky.ending={ending}"],
        cwd=project,
        env=environment(),
    )
    assert status in job.wait(), job.report()
    run = only_run(project / "runs")
    assert (run / "code.patch").is_file() or not shutil.which("git")
    assert len(list((run / "checkpoints").iterdir())) > 1
    assert list(run.glob("wandb/offline-run-*/run-*.wandb")) and (project / "mlflow.db").stat().st_size
    assert any((project / "mlruns").rglob("config.toml")) or ending != "success"
    printed = [job.output(rank) for rank in range(2)]
    monkeypatch.chdir(project)
    for name, value in (ENVIRONMENT | VARIABLES).items():
        monkeypatch.setenv(name, value)
    other = command(1, ["run", "pipeline.toml", *OPTIONS], cwd=project, env=environment(), launcher=False)
    assert other.wait() == [0], other.report()
    second = max((project / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    for words in (
        ["diff", run, second],
        ["diff", run, "pipeline.toml"],
        ["diff", run, second, "--json"],
        ["runs", "--json"],
        ["runs"],
        ["check", "pipeline.toml", *OPTIONS],
        ["check", "pipeline.toml", *OPTIONS, "--json"],
        ["check", "pipeline.toml", *OPTIONS, "--resolved"],
        ["check", "pipeline.toml", *OPTIONS, "--set", "hooks.leaky.token=[1]", "--set", "hooks.leaky.keys=3"],
        ["check", "pipeline.toml", "--set", "hooks.leaky.keys=[{a='planted-by-set'}]"],
        ["report", run, second, "-o", "page.html"],
    ):
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert isinstance(result.exception, SystemExit | None), (words, result.exception)
        assert result.output or words[0] == "report", words
        printed.append(result.output)
    assert (project / "page.html").is_file()
    (project / "leaky_parts.py").rename(project.parent / "leaky_parts.py")
    (project / "pipeline.toml").unlink()
    assert leaks_below(project) == []
    assert leaks_in("printed", "\n".join(printed).encode()) == []


def test_a_run_goes_on_only_where_its_variables_are_set(command, project):
    """TRK-04: config.toml has interpolations in the place of secrets; what is not set is named."""
    first = command(1, ["run", "pipeline.toml", *OPTIONS], cwd=project, env=environment(), launcher=False)
    assert first.wait() == [0], first.report()
    again = ["run", "--resume", str(only_run(project / "runs")), "--set", "train.steps=8"]
    refused = command(1, again, cwd=project, env=environment(), launcher=False)
    assert refused.wait() == [2], refused.report()
    for name in VARIABLES:
        assert f"the environment variable {name!r} is not set" in refused.stderr(0)
    resumed = command(1, again, cwd=project, env=environment() | VARIABLES, launcher=False)
    assert resumed.wait() == [0], resumed.report()
    assert record_of(only_run(project / "runs"))["status"] == "completed"
