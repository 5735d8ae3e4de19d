"""The configs that the repository ships validate against the components they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import load_config

ROOT = Path(__file__).parents[2]
CONFIGS = [ROOT / "pipeline.toml", *sorted((ROOT / "examples").glob("*.toml"))]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_it_validates_without_a_warning(path: Path) -> None:
    assert load_config(path).warnings == ()


def test_there_are_three() -> None:
    assert [path.name for path in CONFIGS] == [
        "pipeline.toml",
        "char_transformer.toml",
        "digits_convnet.toml",
    ]
