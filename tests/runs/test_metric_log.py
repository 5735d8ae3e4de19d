from __future__ import annotations

import json
import math
import resource
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import RunError
from pipeline.runs.metric_log import MetricLog, read_rows, rewind, sync_rows


def write_log(path: Path, steps: range, tail: bytes = b"") -> None:
    with MetricLog(path) as log:
        for step in steps:
            log.append({"step": step, "epoch": 0, "train/loss": 1 / step, "time": float(step)})
    with path.open("ab") as file:
        file.write(tail)


def steps_of(path: Path) -> list[int]:
    return [row["step"] for row in read_rows(path)]


def test_rows_are_lines_with_step_first_and_time_last(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricLog(path) as log:
        log.append({"time": 2.0, "train/loss": 0.31, "lr": 1e-3, "epoch": 1, "step": 460})
        assert path.read_text() == '{"step": 460, "epoch": 1, "train/loss": 0.31, "lr": 0.001, "time": 2.0}\n'


def test_numbers_that_are_not_finite_are_valid_json_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with MetricLog(path) as log:
        log.append({"step": 1, "a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.1 + 0.2})
    raw = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert raw == {"step": 1, "a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 0.1 + 0.2}
    (row,) = read_rows(path)
    assert math.isnan(row["a"])
    assert (row["b"], row["c"], row["d"]) == (math.inf, -math.inf, 0.1 + 0.2)


def test_no_file_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none") == []
    assert rewind(tmp_path / "none", 3, attempt=1) == 0
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.parametrize("tail", [b'{"step": 4, "ep', b"{", b"\0\0\0", b'{"step"', b"\xff"])
def test_a_torn_last_line_is_left_out_and_repaired(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    write_log(path, range(1, 4), tail)
    assert steps_of(path) == [1, 2, 3]
    assert rewind(path, 3, attempt=1) == 0
    write_log(path, range(4, 6))
    assert steps_of(path) == [1, 2, 3, 4, 5]
    aside = json.loads((tmp_path / "metrics.superseded.jsonl").read_text())
    assert aside["attempt"] == 1
    assert aside["torn"] == tail.decode(errors="replace")


def test_a_whole_last_line_without_its_end_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_log(path, range(1, 3), b'{"step": 3}')
    assert steps_of(path) == [1, 2, 3]
    rewind(path, 3, attempt=1)
    write_log(path, range(4, 5))
    assert steps_of(path) == [1, 2, 3, 4]


def test_two_kills_leave_every_step_once(tmp_path: Path) -> None:
    """TRK-02: log each step, checkpoint every 5, kill at 13 and again at 17, with a torn line."""
    path, once = tmp_path / "metrics.jsonl", tmp_path / "uninterrupted"
    write_log(path, range(1, 14), b'{"step": 14')
    assert rewind(path, 10, attempt=1) == 3
    write_log(path, range(11, 18))
    assert rewind(path, 15, attempt=2) == 2
    write_log(path, range(16, 21))
    write_log(once, range(1, 21))
    assert path.read_bytes() == once.read_bytes()
    aside: list[dict[str, Any]] = [
        json.loads(line) for line in (tmp_path / "metrics.superseded.jsonl").read_text().splitlines()
    ]
    assert [(line["attempt"], line["row"]["step"]) for line in aside if "row" in line] == [
        (1, 11),
        (1, 12),
        (1, 13),
        (2, 16),
        (2, 17),
    ]
    assert [line["torn"] for line in aside if "torn" in line] == ['{"step": 14']


def test_a_log_with_nothing_to_move_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_log(path, range(1, 4))
    before = path.stat()
    assert rewind(path, 3, attempt=1) == 0
    assert path.stat().st_ino == before.st_ino
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("line", [b"{broken\n", b"[1]\n", b'{"epoch": 1}\n', b"\n"])
def test_damage_before_the_last_line_is_named_by_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    write_log(path, range(1, 3), line)
    write_log(path, range(3, 5))
    with pytest.raises(RunError, match=r"metrics\.jsonl:3: is no row of metrics"):
        read_rows(path)


@pytest.mark.parametrize("line", [b"{broken", b"[1]", b'{"epoch": 1}', b"", b"\0\0\xff"])
def test_a_rewind_moves_damaged_lines_aside_and_keeps_the_rows_around_them(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "metrics.jsonl"
    write_log(path, range(1, 3), line + b"\n")
    write_log(path, range(3, 6), b'{"step": 6, "ep')
    assert rewind(path, 4, attempt=1) == 1
    assert steps_of(path) == [1, 2, 3, 4]
    aside = [json.loads(text) for text in (tmp_path / "metrics.superseded.jsonl").read_text().splitlines()]
    assert [one["row"]["step"] for one in aside if "row" in one] == [5]
    assert [one["torn"] for one in aside if "torn" in one] == [
        line.decode(errors="replace"),
        '{"step": 6, "ep',
    ]


def test_a_full_disk_leaves_no_half_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MetricLog(path) as log:
        log.append({"step": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
        try:
            with pytest.raises(RunError, match=r"metrics\.jsonl: cannot be written: .*EFBIG"):
                log.append({"step": 2, "long": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == b'{"step": 1}\n'
        log.append({"step": 3})
        sync_rows(log.path)
    assert steps_of(path) == [1, 3]


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="EISDIR"):
        MetricLog(tmp_path)
