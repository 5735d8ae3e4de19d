from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import RunError
from pipeline.runs.create import create, replace_config
from pipeline.runs.leftovers import find_leftovers, hidden_name
from pipeline.runs.listing import list_runs
from pipeline.runs.record import Record, read

MakeRecord = Callable[..., Record]


def test_a_new_run_has_its_config_sources_and_record(tmp_path: Path, make_record: MakeRecord) -> None:
    record = make_record(name="../my run")
    sources = [
        (Path("/a/pipeline.toml"), b"one"),
        (Path("/b/pipeline.toml"), b"two"),
        (Path("/b/PIPELINE.toml"), b"three"),
        (Path("/a/pipeline.toml"), b"one"),
    ]
    run = create(tmp_path / "runs", record, config_toml='name = "x"\n', sources=sources)
    assert run.path == tmp_path / "runs" / "my-run-20260304-050607-012345"
    assert run.config.read_text() == 'name = "x"\n'
    assert {path.name: path.read_bytes() for path in run.source.iterdir()} == {
        "pipeline.toml": b"one",
        "pipeline-2.toml": b"two",
        "PIPELINE-3.toml": b"three",
    }
    assert read(run) == record
    assert read(run).name == "../my run"


def test_ten_runs_of_one_second_get_folders_of_their_own(tmp_path: Path, make_record: MakeRecord) -> None:
    def start(seed: int) -> str:
        return create(tmp_path, make_record(seed=seed), config_toml=f"seed = {seed}\n").name

    with ThreadPoolExecutor(5) as pool:
        names = list(pool.map(start, range(10)))
    stem = "digits-20260304-050607-012345"
    assert sorted(names) == sorted([stem, *(f"{stem}-{copy}" for copy in range(2, 11))])
    assert {row.config["seed"] for row in list_runs(tmp_path)} == set(range(10))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_missing_parent_names_path_reason_and_remedy(tmp_path: Path, make_record: MakeRecord) -> None:
    with pytest.raises(RunError, match=r"no/runs.*ENOENT.*make its parent") as caught:
        create(tmp_path / "no" / "runs", make_record(), config_toml="")
    assert isinstance(caught.value.__cause__, OSError)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_file_in_the_place_of_the_runs_folder(tmp_path: Path, make_record: MakeRecord) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(RunError, match="ENOTDIR"):
        create(tmp_path / "runs", make_record(), config_toml="")
    assert (tmp_path / "runs").read_text() == "mine"


@pytest.mark.parametrize("runs_dir_exists", [True, False])
def test_whatever_step_fails_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_record: MakeRecord, runs_dir_exists: bool
) -> None:
    runs = tmp_path / "runs"
    if runs_dir_exists:
        runs.mkdir()
    record, failing_at, before = make_record(), 0, sorted(tmp_path.rglob("*"))
    while True:
        failing_at += 1
        with monkeypatch.context() as patch:
            _fail_at(patch, failing_at)
            try:
                create(runs, record, config_toml="x = 1", sources=[(Path("a.toml"), b"a")])
                break
            except RunError as error:
                assert "EROFS" in str(error) and "--runs-dir" in str(error)
        assert sorted(tmp_path.rglob("*")) == before
    assert failing_at > 8  # every operation had its turn


def _fail_at(patch: pytest.MonkeyPatch, failing_at: int) -> None:
    calls = 0

    def rig(name: str) -> None:
        real = getattr(os, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == failing_at:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return real(*args, **kwargs)

        patch.setattr(os, name, operation)

    for name in ("mkdir", "rename", "fsync"):
        rig(name)


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, make_record: MakeRecord) -> None:
    """CKP-01: killed before its folder has a name; what a living process prepares stays."""
    pid = os.fork()
    if pid == 0:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "rename", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            create(tmp_path, make_record(), config_toml="")
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    (left,) = find_leftovers(tmp_path)
    assert left.path.is_dir() and left.pid == pid
    living = tmp_path / hidden_name("tmp", "another")
    living.mkdir()
    folder = create(tmp_path, make_record(), config_toml="")
    assert sorted(tmp_path.iterdir()) == sorted([living, folder.path])


def test_a_changed_config_keeps_the_former_one(tmp_path: Path, make_record: MakeRecord) -> None:
    run = create(tmp_path, make_record(), config_toml="epochs = 1\n")
    replace_config(run, "epochs = 1\n", attempt=1)
    assert not run.former_config(1).exists()
    replace_config(run, "epochs = 2\n", attempt=1)
    assert run.config.read_text() == "epochs = 2\n"
    assert run.former_config(1).read_text() == "epochs = 1\n"
