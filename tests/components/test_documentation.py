"""Every built-in loads by its entry point and says what each of its arguments is."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import EntryPoint, distribution
from typing import Any

import pytest

from pipeline.api.kinds import RULES

BUILT_IN = [
    entry_point
    for entry_point in distribution("pipeline-ddp").entry_points
    if entry_point.value.startswith("pipeline.components.")
]
GIVEN = {name for rules in RULES.values() for name in (*rules.positional, *rules.by_name)}


def documented_arguments(component: Any) -> list[str]:
    """The names in a docstring's Args section, a comma-separated line counting for several."""
    section = re.search(r"\n *Args:\n(.*?)(\n\n|\Z)", inspect.getdoc(component) or "", re.DOTALL)
    return re.findall(r"^    (\w+): ", section[1], re.MULTILINE) if section else []


def test_all_are_found() -> None:
    assert len(BUILT_IN) == 35


@pytest.mark.parametrize("entry_point", BUILT_IN, ids=lambda entry_point: entry_point.name)
def test_every_argument_is_documented_and_annotated(entry_point: EntryPoint) -> None:
    component = entry_point.load()
    parameters = inspect.signature(component, eval_str=True).parameters  # every annotation resolves
    settable = [name for name in parameters if name not in GIVEN]
    documented = [name for name in documented_arguments(component) if name not in GIVEN]
    assert documented == settable
    assert all(parameters[name].annotation is not inspect.Parameter.empty for name in settable)
