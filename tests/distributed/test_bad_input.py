"""Wrong configs and command lines: exit status 2, said once by all ranks together, and nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

from runs_of import only_run, record_of, rows_of, write_config

STOPPED = 75


def ends(command, folder, arguments, *, world_size, status, once=(), env=None):
    """Run in ``folder``: rank 0's status, no traceback, and each text once in all ranks' output.

    The others are ended by the launcher while they leave the word to rank 0, or see the same themselves.
    """
    job = command(world_size, ["run", *arguments], cwd=folder, launcher=world_size > 1, env=env)
    first, *others = job.wait()
    assert first == status and set(others) <= {status, STOPPED, -signal.SIGTERM}, job.report()
    text = "".join(job.output(rank) for rank in range(world_size))
    assert "Traceback" not in text, text
    for fragment in once:
        assert text.count(fragment) == 1, f"{fragment!r} is there {text.count(fragment)} times:\n{text}"
    return text


MISSING = None
FILES = [
    pytest.param(MISSING, ["config.toml", "no such file"], id="missing"),
    pytest.param("folder", ["config.toml", "folder"], id="a folder"),
    pytest.param("", ["config.toml: ", "empty", "at least model, dataset.train"], id="empty"),
    pytest.param("[model\n", ["config.toml:1:"], id="invalid TOML"),
    pytest.param(b"name = '\xff'\n", ["config.toml", "UTF-8"], id="not UTF-8"),
    pytest.param("# " + "x" * 2**20, ["config.toml", "1 MiB"], id="too large"),
]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("content", "says"), FILES)
def test_a_file_that_is_no_config(command, tmp_path, content, says, world_size):
    path = tmp_path / "config.toml"
    if content == "folder":
        path.mkdir()
    elif content is not MISSING:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    text = ends(command, tmp_path, ["config.toml"], world_size=world_size, status=2)
    for fragment in says:
        assert fragment in text
    assert [line for line in text.splitlines() if len(line) > 1000] == []
    assert len(set(text.splitlines())) == len(text.splitlines())
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"] * path.exists()


def line_of(text, start):
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(start))


KEYS = [
    pytest.param({"train__epochs": "many"}, "epochs", ["train.epochs", "many"], id="wrong type"),
    pytest.param({"train__epochs": -1}, "epochs", ["train.epochs", "-1"], id="out of range"),
    pytest.param({"train__epoch": 3}, "epoch =", ["train.epoch", "did you mean 'epochs'?"], id="unknown key"),
    pytest.param({"optimizer__lrr": 3.0}, "lrr", ["optimizer.lrr", "'lr'"], id="unknown argument"),
    pytest.param(
        {"model__type": "nett"}, 'type = "nett"', ["model.type", "did you mean 'net'?"], id="component"
    ),
    pytest.param(
        {"optimizer__type": "lbfgs"}, 'type = "lbfgs"', ["lbfgs", "closure"], id="refused component"
    ),
    pytest.param({"hooks": {"progres": {}}}, "[hooks.progres]", ["'progress'"], id="unknown hook"),
    pytest.param({"name": "../../etc/x"}, "name", ["name", "../../etc/x"], id="a hostile name"),
    pytest.param({"train__steps": 3}, "steps", ["epochs", "steps"], id="two lengths"),
    pytest.param({"train__global_batch_size": 0}, "global_batch_size", ["global_batch_size"], id="no batch"),
]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("changes", "at", "says"), KEYS)
def test_a_wrong_key(command, tmp_path, changes, at, says, world_size):
    """One line, with the file and the line of the fault."""
    written = write_config(tmp_path, **changes).read_text()
    text = ends(command, tmp_path, ["config.toml"], world_size=world_size, status=2)
    line = text.splitlines()[0]
    assert sum(other.startswith("config.toml:") for other in text.splitlines()) == 1
    assert line.startswith(f"config.toml:{line_of(written, at)}:")
    for fragment in says:
        assert fragment in line
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("world_size", [1, 2])
def test_all_faults_at_once(command, tmp_path, world_size):
    """In the file's order, those of the command line last."""
    write_config(tmp_path, model__widht=3, optimizer__lr="fast", train__epoch=1)
    text = ends(
        command, tmp_path, ["config.toml", "--set", "train.precision=fp8"], world_size=world_size, status=2
    )
    keys = [line.split(": ")[1] for line in text.splitlines() if line.startswith("config.toml:")]
    assert keys == ["model.widht", "optimizer.lr", "train.epoch"]
    assert text.splitlines()[-1].startswith("--set train.precision: ")


USAGE = [
    pytest.param([], ["CONFIG is missing"], id="no config"),
    pytest.param(["config.toml", "--from", "a"], ["CONFIG and --from"], id="config and --from"),
    pytest.param(["--from", "a", "--resume", "b"], ["--from", "--resume"], id="--from and --resume"),
    pytest.param(["config.toml", "--set", "train.epochs"], ["--set", "train.epochs"], id="--set without ="),
    pytest.param(["config.toml", "--set", "=3"], ["--set"], id="--set without a key"),
    pytest.param(
        ["config.toml", "--set", "train..epochs=3"], ["--set", "train..epochs"], id="--set, empty part"
    ),
    pytest.param(["config.toml", "--set", "train.epochs=[1"], ["--set train.epochs"], id="--set, no TOML"),
    pytest.param(["config.toml", "--set", "seed.x=1"], ["--set seed.x"], id="--set through a number"),
    pytest.param(["config.toml", "--unset", "nope.nope"], ["--unset nope.nope"], id="--unset of nothing"),
    pytest.param(["config.toml", "--name", "a/b"], ["a/b"], id="a name with a slash"),
    pytest.param(["config.toml", "--name", ""], ["name"], id="an empty name"),
    pytest.param(["config.toml", "--nproc", "0"], ["--nproc"], id="no processes"),
    pytest.param(["config.toml", "--epochs", "3"], ["--epochs"], id="unknown option"),
]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("arguments", "says"), USAGE)
def test_a_wrong_command_line(command, tmp_path, arguments, says, world_size):
    write_config(tmp_path)
    text = ends(command, tmp_path, arguments, world_size=world_size, status=2)
    for fragment in says:
        assert fragment in text
    assert len([line for line in text.splitlines() if line.startswith(("Error", "--"))]) == 1, text
    assert not (tmp_path / "runs").exists()


def test_nproc_under_a_launcher(command, tmp_path):
    write_config(tmp_path)
    once = ["--nproc starts processes of its own; leave it out under a launcher"]
    ends(command, tmp_path, ["config.toml", "--nproc", "2"], world_size=2, status=2, once=once)


@pytest.mark.parametrize("world_size", [1, 2])
def test_runs_that_are_not_there(command, tmp_path, world_size):
    """The nearest names are told; nothing is begun in place of what was meant."""
    write_config(tmp_path, name="digits")
    ends(command, tmp_path, ["config.toml", "--set", "train.epochs=1"], world_size=1, status=0)
    folder = only_run(tmp_path / "runs")
    for arguments, says in [
        (["--resume", "dgits"], "the nearest are digits"),
        (["config.toml", "--resume", "dgits"], "the nearest are digits"),
        (["--from", "dgits"], "the nearest are digits"),
        (["--from", "digits@best"], "has no best checkpoint: none was written"),
        (["--from", "digits@step-000003"], "has no checkpoint step-000003"),
        (["--resume", "./nowhere"], "./nowhere: is no folder"),
    ]:
        ends(command, tmp_path, arguments, world_size=world_size, status=2, once=[says])
    assert only_run(tmp_path / "runs") == folder
    assert record_of(folder)["status"] == "completed"


def test_a_toml_file_after_resume_is_the_config(command, tmp_path):
    write_config(tmp_path, train__epochs=1)
    text = ends(command, tmp_path, ["--resume", "config.toml"], world_size=1, status=0)
    assert "a new one begins" in text
    text = ends(command, tmp_path, ["--resume", "config.toml"], world_size=2, status=0)
    assert "nothing to do" in text
    only_run(tmp_path / "runs")


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_file_in_the_place_of_the_runs_folder(command, tmp_path, world_size):
    write_config(tmp_path)
    (tmp_path / "runs").write_text("mine")
    once = ["cannot make a run folder in runs: "]
    ends(command, tmp_path, ["config.toml"], world_size=world_size, status=1, once=once)
    assert (tmp_path / "runs").read_text() == "mine"


@pytest.fixture
def read_only(tmp_path):
    """A folder that not even root can write to."""
    folder = tmp_path / "runs"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mount = shutil.which("mount")
    made = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "ro", "t", folder], check=False)
    if not made or made.returncode:
        pytest.skip("root can write to any folder, and mounts are not allowed here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_read_only_runs_folder(command, tmp_path, read_only, world_size):
    write_config(tmp_path)
    once = ["cannot make a run folder in runs: "]
    text = ends(command, tmp_path, ["config.toml"], world_size=world_size, status=1, once=once)
    assert "--runs-dir" in text
    assert list(read_only.iterdir()) == []


def test_runs_that_start_in_the_same_second(command, tmp_path):
    """Each has its own folder, and both are complete."""
    write_config(tmp_path, train__epochs=1)
    jobs = [command(size, ["run", "config.toml"], cwd=tmp_path, launcher=size > 1) for size in (1, 1, 2, 2)]
    for job in jobs:
        assert set(job.wait()) == {0}, job.report()
    folders = sorted((tmp_path / "runs").iterdir(), key=lambda folder: record_of(folder)["world_size"])
    assert [record_of(folder)["world_size"] for folder in folders] == [1, 1, 2, 2]
    assert {record_of(folder)["status"] for folder in folders} == {"completed"}
    for one, other in (folders[:2], folders[2:]):
        assert rows_of(one) == rows_of(other)


def test_the_real_launcher_says_it_once(torchrun, tmp_path):
    """Each process leaves with 2; the launcher's own status is 1."""
    write_config(tmp_path, train__epoch=1)
    job = torchrun(2, ["run", "config.toml"], cwd=tmp_path)
    assert job.wait() == 1
    assert job.output().count("train.epoch: ") == 1
    assert not (tmp_path / "runs").exists()
