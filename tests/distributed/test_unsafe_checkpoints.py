"""Promise 6: what somebody planted in a checkpoint is neither run nor followed, and says what it is."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from runs_of import BASE, PARTS, only_run, record_of, write_config

NEWEST = "checkpoints/step-000015"


@pytest.fixture
def planted(trained, tmp_path):
    """The config and a copy of a run, to be changed."""
    config, whole = trained
    return config, Path(shutil.copytree(whole, tmp_path / "runs" / whole.name))


class Marker:
    """Makes a file when it is unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def as_torch(value, file: Path) -> None:
    torch.save({"format": 1, "value": value}, file)


def as_pickle(protocol: int):
    return lambda value, file: file.write_bytes(pickle.dumps(value, protocol=protocol))


FORMS = {"torch.save": as_torch, "protocol 2": as_pickle(2), "protocol 4": as_pickle(4)}


def sign(checkpoint: Path) -> None:
    """Make the manifest true again, as a forger would."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    for name in manifest["files"]:
        data = (checkpoint / name).read_bytes()
        manifest["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def resume(command, config, folder, *options, ends):
    longer = ["--set", "train.epochs=4", *options]
    job = command(2, ["run", config, "--runs-dir", folder.parent, "--resume", *longer])
    assert job.wait() == [ends, ends], job.report()
    return job


@pytest.mark.parametrize("form", FORMS)
def test_a_planted_pickle_is_refused_by_the_name_of_its_object(command, planted, tmp_path, form):
    """CKP-07: with --resume, evaluate and model.weights; nothing of it runs."""
    config, folder = planted
    marker = tmp_path / "marker"
    FORMS[form](Marker(marker), folder / NEWEST / "state.pt")
    sign(folder / NEWEST)
    job = resume(command, config, folder, ends=1)
    (error,) = [line for line in job.report().splitlines() if line.startswith("error: ")]
    assert "step-000015/state.pt holds posix.system" in error and "weights_only" not in error
    options = ["--runs-dir", folder.parent, "--checkpoint", "step-000015"]
    job = command(1, ["evaluate", folder, *options], launcher=False)
    assert job.wait() == [1] and "state.pt holds posix.system" in job.stderr(0), job.report()
    FORMS[form](Marker(marker), tmp_path / "start.safetensors")
    options = ["--runs-dir", tmp_path / "new", "--set", f"model.weights={tmp_path / 'start.safetensors'}"]
    job = command(1, ["run", config, *options], launcher=False)
    assert job.wait() == [1] and "a pickle that holds posix.system" in job.stderr(0), job.report()
    assert not marker.exists()


def test_a_planted_model_is_refused(command, planted, tmp_path):
    """CKP-07: the weights' file may be a pickle too."""
    config, folder = planted
    as_torch(Marker(tmp_path / "marker"), folder / NEWEST / "model.safetensors")
    sign(folder / NEWEST)
    job = resume(command, config, folder, ends=1)
    assert "model.safetensors is no sound safetensors file" in job.report()
    assert "posix.system" in job.report() and not (tmp_path / "marker").exists()


def test_a_hook_s_state_that_is_not_plain_is_refused_when_it_is_saved(command, tmp_path):
    """CKP-07: naming hook, key and type, on the rank that has it; the others end."""
    config = write_config(
        tmp_path,
        components=[*BASE["components"], str(PARTS.with_name("saving.py"))],
        hooks={"numpy_state": {}, "checkpoint": {"every": "2 steps"}},
    )
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait() == [1, 1], job.report()
    last = job.stderr(0).splitlines()[-1]
    assert "the state of hooks.numpy_state holds a numpy.float64 at best.value[1]" in last, job.report()
    assert not list(only_run(tmp_path / "runs").glob("checkpoints/*"))


def outside_of(checkpoint: Path) -> Path:
    """Beside the run's folder."""
    return checkpoint.parent.parent.parent / "secret"


def name_a_file_outside(checkpoint):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"]["../../../secret"] = manifest["files"]["state.pt"]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(checkpoint / "state.pt", outside_of(checkpoint))


def link_a_file(checkpoint):
    (checkpoint / "state.pt").rename(outside_of(checkpoint))
    (checkpoint / "state.pt").symlink_to(outside_of(checkpoint))


def link_the_folder(checkpoint):
    checkpoint.rename(outside_of(checkpoint))
    checkpoint.symlink_to(outside_of(checkpoint))


def link_to_nothing(checkpoint):
    link_the_folder(checkpoint)
    checkpoint.unlink()
    checkpoint.symlink_to(outside_of(checkpoint) / "nothing")


PLANTS = {
    "a manifest that names a file outside": (name_a_file_outside, "names the file '../../../secret'"),
    "a link in a file's place": (link_a_file, "is a symbolic link"),
    "a link in the folder's place": (link_the_folder, "is reached by a symbolic link"),
    "a link to nothing": (link_to_nothing, "resuming"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_outside_the_run_folder_is_read(command, planted, plant):
    """The checkpoint is reported, the one before is used, and what lies outside stays as it is."""
    config, folder = planted
    act, words = PLANTS[plant]
    act(folder / NEWEST)
    outside = outside_of(folder / NEWEST)
    before = sorted(path.name for path in outside.rglob("*")), outside.stat().st_mtime_ns
    job = resume(command, config, folder, ends=0)
    assert words in job.stderr(0) and "from step-000010" in job.stderr(0), job.report()
    assert (sorted(path.name for path in outside.rglob("*")), outside.stat().st_mtime_ns) == before
    assert not (folder / NEWEST).is_symlink()
    assert record_of(folder)["status"] == "completed"


@pytest.mark.parametrize("name", ["../../x", "step-000015/../step-000010", "/etc", "step-000015\0"])
def test_a_checkpoint_s_name_is_no_path(command, planted, name):
    """Neither on the command line nor in the file that names the last one."""
    _, folder = planted
    argv = ["evaluate", folder, "--runs-dir", folder.parent, "--checkpoint"]
    if "\0" not in name:
        job = command(1, [*argv, name], launcher=False)
        assert job.wait() == [2] and "no such checkpoint" in job.stderr(0), job.report()
    (folder / "checkpoints" / "last").write_text(name)
    job = command(1, [*argv, "last"], launcher=False)
    assert job.wait() == [2] and "expected a checkpoint as step-000460" in job.stderr(0), job.report()


def lose_random_states(ranks):
    del ranks[1]["random"]


@pytest.mark.parametrize("lose", [lose_random_states, lambda ranks: ranks.pop(1)], ids=["random", "whole"])
def test_a_rank_s_lost_part_is_noticed(command, planted, lose):
    """CKP-05: the run stops, naming the rank and the consequence."""
    config, folder = planted
    state = torch.load(folder / NEWEST / "state.pt", weights_only=True)
    lose(state["ranks"])
    torch.save(state, folder / NEWEST / "state.pt")
    sign(folder / NEWEST)
    job = resume(command, config, folder, ends=1)
    assert "has no random states of rank 1" in job.report() and "would not go on as it was" in job.report()
