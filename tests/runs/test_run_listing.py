from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.errors import RunError
from pipeline.runs.create import create
from pipeline.runs.layout import RunFolder
from pipeline.runs.listing import find_run, list_runs, newest_of_identity, varying_keys
from pipeline.runs.record import Attempt, Record, write

MakeRecord = Callable[..., Record]

CONFIG = """name = "{name}"
seed = 7
[optimizer]
type = "adamw"
lr = {lr}
betas = [0.9, 0.99]
"""


@pytest.fixture
def add(tmp_path: Path, make_record: MakeRecord) -> Callable[..., RunFolder]:
    """Make a run that began ``hour`` hours after the first, in ``tmp_path``."""

    def make(name: str, hour: int, lr: str = "0.1", **fields: object) -> RunFolder:
        record = make_record(name=name, **fields)
        record = replace(record, created=record.created + timedelta(hours=hour))
        return create(tmp_path, record, config_toml=CONFIG.format(name=name, lr=lr))

    return make


def test_the_newest_comes_last_with_status_config_and_metrics(
    tmp_path: Path, add: Callable[..., RunFolder], make_record: MakeRecord
) -> None:
    created = make_record().created
    attempt = Attempt(created, "h", 1, 1, "completed", ended=created + timedelta(seconds=9), last_step=40)
    late = add("b", 5, status="completed", steps=40, metrics={"eval/loss": 0.2}, attempts=(attempt,))
    early = add("a", 1, process_started=1)
    rows = list_runs(tmp_path)
    assert [row.folder for row in rows] == [early, late]
    assert [row.status for row in rows] == ["interrupted", "completed"]
    assert rows[1].seconds == 9
    assert rows[1].metrics == {"eval/loss": 0.2}
    assert rows[1].steps == 40
    assert rows[1].config == {
        "name": "b",
        "seed": 7,
        "optimizer.type": "adamw",
        "optimizer.lr": 0.1,
        "optimizer.betas": [0.9, 0.99],
    }


def test_the_tenth_run_of_a_second_comes_after_the_second(
    tmp_path: Path, add: Callable[..., RunFolder]
) -> None:
    made = [add("a", 0) for _ in range(11)]
    assert [row.folder for row in list_runs(tmp_path)] == made


def test_broken_folders_are_listed_and_foreign_ones_are_not(
    tmp_path: Path, add: Callable[..., RunFolder]
) -> None:
    whole = add("ok", 1)
    half = tmp_path / "half-20250101-000000-abcdef"
    half.mkdir()
    foreign = tmp_path / "renamed by hand"
    foreign.mkdir()
    (foreign / "run.json").write_text('{"name": "x"')
    os.utime(foreign, (0, 0))
    bad_config = add("bad", 2)
    bad_config.config.write_text("x = [")
    no_config = add("none", 3)
    no_config.config.unlink()
    (tmp_path / "README.md").write_text("")
    (tmp_path / "notes").mkdir()
    (tmp_path / ".tmp-digits-20260304-050607-012345-99").mkdir()
    (tmp_path / "file-20250101-000000-abcdef").write_text("")
    rows = list_runs(tmp_path)
    assert [row.folder.path for row in rows] == [foreign, half, whole.path, bad_config.path, no_config.path]
    assert "Invalid JSON" in rows[0].problem and rows[0].name == "renamed by hand"
    assert "no run.json" in rows[1].problem and rows[1].status is None and rows[1].metrics == {}
    assert rows[2].problem == ""
    assert "config.toml: is no valid TOML" in rows[3].problem and rows[3].status == "running"
    assert "ENOENT" in rows[4].problem


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_a_config_with_other_line_ends_is_the_same(
    tmp_path: Path, add: Callable[..., RunFolder], end: str
) -> None:
    """As one that was copied through Windows, or edited there."""
    text = '"""\n  over\n  lines"""'
    for hour, name in enumerate(("one", "other")):
        add(name, hour, lr=text)
    config = find_run(tmp_path, "other").config
    config.write_bytes(config.read_bytes().replace(b"\n", end.encode()))
    one, other = list_runs(tmp_path)
    assert other.problem == ""
    assert other.config == {**one.config, "name": "other"}
    assert other.config["optimizer.lr"] == "  over\n  lines"


def test_no_folder_no_runs_and_a_file_is_an_error(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="ENOTDIR"):
        list_runs(tmp_path / "file")


def test_only_keys_that_vary(tmp_path: Path, add: Callable[..., RunFolder]) -> None:
    add("a", 1, "0.1")
    add("a", 2, "0.1")
    assert varying_keys(list_runs(tmp_path)) == []
    third = add("b", 3, "0.2")
    add("a", 4).config.write_text("broken")
    assert varying_keys(list_runs(tmp_path)) == ["name", "optimizer.lr"]
    third.config.write_text(CONFIG.format(name="a", lr="0.1") + "[hooks.ema]\ndecay = 0.9\n")
    assert varying_keys(list_runs(tmp_path)) == ["hooks.ema.decay"]
    third.config.write_text(CONFIG.format(name="a", lr="0.1").replace("seed = 7", "seed = 7.0"))
    assert varying_keys(list_runs(tmp_path)) == ["seed"]


def test_a_run_is_found_by_path_folder_name_and_prefix(
    tmp_path: Path, add: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, other = add("a", 1), add("a", 2), add("ab", 3)
    assert find_run(tmp_path, old.name) == old
    assert find_run(tmp_path, "a") == new
    assert find_run(tmp_path, "ab-2") == other
    assert find_run(tmp_path, str(old.path)) == old
    assert find_run(tmp_path / "elsewhere", f"{old.path}/") == old
    monkeypatch.chdir(old.path)
    assert find_run(tmp_path / "elsewhere", ".").path.resolve() == old.path
    monkeypatch.chdir(tmp_path)
    assert find_run(tmp_path / "elsewhere", old.name).path.resolve() == old.path


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (
            "digits-202",
            r"begins the names of 2 runs .*digits-20260304-060607-012345, digits-20260304-070607-012345",
        ),
        ("digit", "begins the names of 2 runs"),
        ("diggits", r"no run 'diggits' in .*; the nearest are digits"),
        ("zzz", "the newest are digits"),
        ("", "no run ''"),
        ("no/such", "is no folder"),
        ("../digits", "is no folder"),
        ("..", "no run folder"),
    ],
)
def test_what_is_not_found_is_told_with_the_nearest(
    tmp_path: Path, add: Callable[..., RunFolder], ref: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    add("digits", 1)
    add("digits", 2)
    with pytest.raises(RunError, match=message):
        find_run(tmp_path, ref)


def test_an_empty_runs_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="it has no runs"):
        find_run(tmp_path, "x")


def test_the_newest_of_an_identity(tmp_path: Path, add: Callable[..., RunFolder]) -> None:
    add("a", 1, identity="x", status="stopped")
    newer = add("b", 2, identity="x", process_started=1)
    add("c", 3, identity="y")
    row = newest_of_identity(tmp_path, "x")
    assert row is not None
    assert (row.folder, row.status) == (newer, "interrupted")
    assert newest_of_identity(tmp_path, "z") is None
    shutil.rmtree(newer.path)
    row = newest_of_identity(tmp_path, "x")
    assert row is not None and row.status == "stopped"


def test_a_run_with_a_hostile_name_is_found_by_it(tmp_path: Path, make_record: MakeRecord) -> None:
    run = create(tmp_path, make_record(name="a b"), config_toml="")
    write(run, make_record(name="a b"))
    assert find_run(tmp_path, "a b") == run


def test_a_folder_of_an_impossible_year_is_listed_as_broken(tmp_path: Path) -> None:
    (tmp_path / "x-00010101-000000-abcdef").mkdir()
    (row,) = list_runs(tmp_path)
    assert row.summary is None and "run.json" in row.problem
