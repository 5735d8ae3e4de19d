"""The cache of the listing: nothing it does may be seen but the time that it saves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.runs import listing
from pipeline.runs.index import NAME
from pipeline.runs.layout import RunFolder, folder_name
from pipeline.runs.listing import RunRow, list_runs
from pipeline.runs.record import Attempt, Best, Parent, Record, to_json

MANY = 120
"""Runs that are worth a cache."""


@pytest.fixture
def runs(tmp_path: Path, make_record: Callable[..., Record]) -> Path:
    for number in range(MANY):
        record = make_record(name=f"n{number % 3}", metrics={"eval/loss": number / 7}, steps=number)
        record = replace(record, created=record.created + timedelta(minutes=number), status="completed")
        folder = RunFolder(tmp_path / str(folder_name(record.name, record.created, record.fingerprint)))
        folder.path.mkdir()
        folder.record.write_bytes(to_json(record))
        folder.config.write_text(
            f'name = "x"\n[optimizer]\nlr = {number}e-3\nbetas = [0.9, {number}]\nx = nan\n'
        )
    return tmp_path


def what_is_read(monkeypatch: pytest.MonkeyPatch, runs: Path) -> tuple[list[RunRow], list[str]]:
    """The rows, and the folders whose files were read for them."""
    read: list[str] = []
    true_read = listing.read_row

    def counted(folder: RunFolder) -> RunRow:
        read.append(folder.name)
        return true_read(folder)

    monkeypatch.setattr(listing, "read_row", counted)
    rows = list_runs(runs)
    monkeypatch.setattr(listing, "read_row", true_read)
    return rows, read


def shown(rows: list[RunRow]) -> list[str]:
    return [repr(row) for row in rows]  # as text, since NaN is not equal to itself


def test_a_second_listing_reads_nothing_and_shows_the_same(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, read = what_is_read(monkeypatch, runs)
    assert len(read) == len(first) == MANY
    again, read = what_is_read(monkeypatch, runs)
    assert read == []
    assert shown(again) == shown(first)


def test_every_field_of_a_summary_survives_the_cache(
    runs: Path, make_record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record(name="full", reason="why", best=Best("m", float("inf"), 3), parent=Parent("p", "c"))
    began = record.created
    ended = Attempt(began, "h", 1, 1, "stopped", ended=began + timedelta(seconds=5))
    record = replace(
        record, attempts=(ended, Attempt(began, "h", 1, 4)), process_started=None, seed=2**63 - 1
    )
    folder = RunFolder(runs / "full-20260304-050607-012345")
    folder.path.mkdir()
    folder.record.write_bytes(to_json(record))
    folder.config.write_text('text = "${oc.env:X}"\nflag = true\n')
    by_name = {row.name: row for row in list_runs(runs)}
    again, read = what_is_read(monkeypatch, runs)
    assert read == []
    (row,) = (row for row in again if row.name == "full")
    assert row.summary == by_name["full"].summary
    assert row.summary is not None
    assert (row.summary.spent, row.summary.best_value, row.summary.parent_checkpoint) == (
        5.0,
        float("inf"),
        "c",
    )
    assert row.config == {"text": "${oc.env:X}", "flag": True}


def test_values_that_are_equal_but_not_the_same_survive_the_cache(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, 1.0 and true, alone and in an array, and -0.0: what a run has like another is kept once."""
    rows = list_runs(runs)
    for row, value, zero in zip(rows, ("1", "1.0", "true"), ("0.0", "-0.0", "0.0"), strict=False):
        row.folder.config.write_text(f"x = {value}\ny = [{value}]\nz = {zero}\n")
    (runs / NAME).unlink()
    first = list_runs(runs)
    again, read = what_is_read(monkeypatch, runs)
    assert read == []
    assert shown(again) == shown(first)
    assert [repr(row.config["x"]) for row in again[:3]] == ["1", "1.0", "True"]
    assert [repr(row.config["y"]) for row in again[:3]] == ["[1]", "[1.0]", "[True]"]
    assert [repr(row.config["z"]) for row in again[:3]] == ["0.0", "-0.0", "0.0"]
    for number in (1, 2):
        assert listing.varying_keys([again[0], again[number]]) == ["x", "y"]


def test_configs_of_the_same_keys_are_kept_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When read anew, and from the cache; a run that came later shares it too."""
    list_runs(runs)[5].folder.config.write_text('name = "x"\n')
    (runs / NAME).unlink()
    first = list_runs(runs)
    first[7].folder.config.write_text('name = "x"\n[optimizer]\nlr = 1.0\nbetas = [0.9, 7]\nx = 2\n')
    again, read = what_is_read(monkeypatch, runs)
    assert read == [first[7].folder.name]
    for rows in (first, again):
        assert len({id(row.shape) for row in rows}) == 2
        assert rows[5].config == {"name": "x"}
        assert all(row.config.keys() == row.shape.keys() >= row.own.keys() for row in rows)
    assert again[7].own.keys() == {"optimizer.lr", "optimizer.betas", "optimizer.x"}
    assert again[7].config["optimizer.lr"] == 1.0


def test_a_shape_may_be_of_none_of_the_runs_that_are_compared(runs: Path) -> None:
    """Keys vary by what the runs have, not by what the first of all had."""
    rows = list_runs(runs)
    for row in rows[1:4]:
        row.folder.config.write_text(rows[0].folder.config.read_text().replace("lr = 0e-3", "lr = 5.0"))
    rows = list_runs(runs)
    assert listing.varying_keys(rows[1:4]) == []
    assert listing.varying_keys(rows[0:4]) == ["optimizer.lr"]
    assert listing.varying_keys(rows[3:5]) == ["optimizer.lr", "optimizer.betas"]


@pytest.mark.parametrize("which", ["record", "config"])
def test_a_run_that_has_changed_is_read_again(
    runs: Path, make_record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    row = list_runs(runs)[5]
    if which == "record":
        row.folder.record.write_bytes(to_json(make_record(name="new", status="failed")))
    else:
        row.folder.config.write_text("lr = 77\n")
    again, read = what_is_read(monkeypatch, runs)
    assert read == [row.folder.name]
    (changed,) = (one for one in again if one.folder.name == row.folder.name)
    assert (
        (changed.name, changed.status) == ("new", "failed")
        if which == "record"
        else changed.config == {"lr": 77}
    )


def test_broken_runs_and_runs_with_dates_are_read_each_time(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, dated, alike, *_ = (row.folder for row in list_runs(runs))
    broken.record.write_text("{")
    dated.config.write_text("day = 2026-01-02\n")
    alike.config.write_text(alike.config.read_text().replace('"x"', "2026-01-02"))  # the keys of the others
    (runs / NAME).unlink()
    list_runs(runs)  # and the others are kept
    for _ in range(2):
        rows, read = what_is_read(monkeypatch, runs)
        assert sorted(read) == sorted([broken.name, dated.name, alike.name])
    assert [row.problem != "" for row in rows if row.folder.name == broken.name] == [True]


DAMAGED = [
    "",
    "{",
    "[]",
    "null",
    '{"format": 3}',
    '{"format": 99}',
    '{"format": 3, "shapes": [], "runs": {"a": [1]}}',
    '{"format": 3, "shapes": [], "runs": []}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_cache_is_as_good_as_none(
    runs: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    first = list_runs(runs)
    (runs / NAME).write_text(content)
    again, read = what_is_read(monkeypatch, runs)
    assert len(read) == MANY
    assert shown(again) == shown(first)
    assert json.loads((runs / NAME).read_text())["format"] == 3, "and it is made anew"


def _keys_alone(document: Any) -> None:
    document["shapes"] = [list(shape) for shape in document["shapes"]]


def _list_for_own(document: Any) -> None:
    for entry in document["runs"].values():
        entry[3] = []


def _key_of_no_shape(document: Any) -> None:
    for entry in document["runs"].values():
        entry[3]["nobody.has"] = 1


@pytest.mark.parametrize("damage", [_keys_alone, _list_for_own, _key_of_no_shape])
def test_nothing_of_a_cache_is_believed_where_its_configs_are_damaged(
    runs: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Any], None]
) -> None:
    first = list_runs(runs)
    document = json.loads((runs / NAME).read_text())
    damage(document)
    (runs / NAME).write_text(json.dumps(document))
    again, read = what_is_read(monkeypatch, runs)
    assert len(read) == MANY
    assert shown(again) == shown(first)


def test_a_few_runs_have_no_cache(runs: Path, tmp_path: Path) -> None:
    for row in list_runs(runs)[10:]:
        row.folder.record.unlink()
        row.folder.config.unlink()
        row.folder.path.rmdir()
    (runs / NAME).unlink()
    assert len(list_runs(runs)) == 10
    assert not (runs / NAME).exists()


def test_a_cache_that_cannot_be_written_is_no_fault(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / NAME).mkdir()  # neither read nor replaced
    assert len(list_runs(runs)) == MANY
