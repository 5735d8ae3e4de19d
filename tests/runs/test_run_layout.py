from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runs.layout import FolderName, RunFolder, folder_name, parse_folder_name, safe_name

WHEN = datetime(2026, 3, 4, 5, 6, 7, 890)


def test_the_names_are_those_of_the_contract() -> None:
    run = RunFolder(Path("runs/a"))
    assert [run.config, run.source, run.record, run.metrics, run.checkpoints, run.log(3)] == [
        Path("runs/a/config.toml"),
        Path("runs/a/source"),
        Path("runs/a/run.json"),
        Path("runs/a/metrics.jsonl"),
        Path("runs/a/checkpoints"),
        Path("runs/a/logs/rank-3.log"),
    ]
    assert str(folder_name("digits-mlp", WHEN, "abcdef0123")) == "digits-mlp-20260304-050607-abcdef"
    assert str(folder_name("digits-mlp", WHEN, "abcdef0123", 2)) == "digits-mlp-20260304-050607-abcdef-2"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("digits", "digits"),
        ("", "run"),
        ("..", "run"),
        ("../../etc/passwd", "etc-passwd"),
        ("/abs/olute", "abs-olute"),
        ("a\\b\0c\nd", "a-b-c-d"),
        ("-rf *", "rf"),
        (".hidden", "hidden"),
        ("lr=0.1 wd=$(x)", "lr=0.1-wd=-x"),
        ("größe-модель-模型", "größe-модель-模型"),
        ("e\u0301", "é"),
        ("\ud800", "run"),
    ],
)
def test_hostile_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(st.text(max_size=150), st.integers(1, 12))
def test_any_name_is_one_component_of_a_path_and_is_parsed_back(name: str, copy: int) -> None:
    whole = folder_name(name, WHEN, "abcdef0123", copy)
    text = str(whole)
    assert Path(text).name == text
    assert not text.startswith((".", "-"))
    assert len(text.encode()) <= 200  # room for the marks of a temporary name under the limit of 255
    assert parse_folder_name(text) == whole


def test_parse_takes_names_apart_that_hold_dashes_and_dates() -> None:
    text = "a-20250101-000000-000000-20260304-050607-abcdef-2"
    assert parse_folder_name(text) == FolderName(
        "a-20250101-000000-000000", datetime(2026, 3, 4, 5, 6, 7), "abcdef", 2
    )


@pytest.mark.parametrize(
    "text",
    ["README.md", "digits", "digits-20260304-050607", "x-20261304-050607-abcdef", "x-20260304-050607-ABCDEF"],
)
def test_other_names_are_no_runs(text: str) -> None:
    assert parse_folder_name(text) is None
