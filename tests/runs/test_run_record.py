from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.errors import RunError
from pipeline.runs.layout import RunFolder
from pipeline.runs.record import Attempt, Best, Change, Failure, Git, Parent, Record, read, write

MakeRecord = Callable[..., Record]


@pytest.fixture
def full(make_record: MakeRecord) -> Record:
    failure = Failure(
        1, "host", 460, "ValueError", "boom", "Traceback ...", "dataset.train", "pipeline.toml:12:1"
    )
    attempt = Attempt(
        started=datetime(2026, 3, 4, tzinfo=UTC),
        ended=datetime(2026, 3, 5, tzinfo=UTC),
        host="host",
        pid=12,
        first_step=1,
        last_step=460,
        status="failed",
        changes=(Change("train.epochs", 20, [1, "x"], "takes effect"),),
        failure=failure,
    )
    return make_record(
        status="failed",
        metrics={"eval/loss": math.inf, "eval/accuracy": 0.1 + 0.2},
        best=Best("eval/accuracy", 0.5, 440),
        failure=failure,
        command=("pipeline", "run", "ü.toml"),
        git=Git("abc", None),
        versions={"torch": "2.13"},
        components=({"key": "model", "nested": {"a": [1]}},),
        parent=Parent("runs/a", "step-000010"),
        attempts=(attempt,),
        seed=2**63 - 1,
    )


def test_a_record_is_read_back_as_it_was(tmp_path: Path, full: Record) -> None:
    folder = RunFolder(tmp_path)
    write(folder, full)
    assert read(folder) == full
    json.loads(folder.record.read_text(), parse_constant=pytest.fail)  # NaN and Infinity are no JSON


def test_nan_is_read_back(tmp_path: Path, make_record: MakeRecord) -> None:
    write(RunFolder(tmp_path), make_record(metrics={"a": math.nan}, best=Best("a", math.nan, 1)))
    record = read(RunFolder(tmp_path))
    assert math.isnan(record.metrics["a"])
    assert record.best is not None and math.isnan(record.best.value)


def test_keys_of_a_later_version_are_ignored(tmp_path: Path, full: Record) -> None:
    folder = RunFolder(tmp_path)
    write(folder, full)
    data = json.loads(folder.record.read_text())
    data["later"] = data["attempts"][0]["later"] = {"x": 1}
    folder.record.write_text(json.dumps(data))
    assert read(folder) == full


def test_a_time_without_a_zone_becomes_comparable(tmp_path: Path, make_record: MakeRecord) -> None:
    write(RunFolder(tmp_path), make_record(created=datetime(2026, 1, 1)))
    assert read(RunFolder(tmp_path)).created == datetime(2026, 1, 1).astimezone()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "run.json: is no record of a run: Invalid JSON"),
        (b'{"name": "x', "Invalid JSON"),
        (b"[]", "is no record"),
        (b'{"name": 3}', r"name: Input should be a valid string \(and \d+ more\)"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[" * 100_000, "Invalid JSON"),
    ],
)
def test_a_broken_record_is_an_error_with_path_and_reason(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=message) as caught:
        read(RunFolder(tmp_path))
    assert str(tmp_path / "run.json") in str(caught.value)


def test_an_unknown_status_is_an_error(tmp_path: Path, full: Record) -> None:
    folder = RunFolder(tmp_path)
    write(folder, full)
    folder.record.write_text(folder.record.read_text().replace('"failed"', '"paused"', 1))
    with pytest.raises(RunError, match="status"):
        read(folder)


def test_a_folder_without_record_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run folder: it has no run\.json"):
        read(RunFolder(tmp_path))


def test_a_refused_write_names_the_file(tmp_path: Path, full: Record) -> None:
    with pytest.raises(RunError, match=r"gone/run.json: cannot be written: .*ENOENT"):
        write(RunFolder(tmp_path / "gone"), replace(full, name="y"))
