"""Attributes that a resumed run has lost."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.cli.verification.attributes import Attributes
from pipeline.cli.verification.evidence import Evidence


class Lost(NamedTuple):
    """An attribute that changed in training and was not brought back."""

    name: str
    before: str
    """Its value as text when the checkpoint was written."""
    after: str
    saved: int
    """The checkpoint's step."""

    def __str__(self) -> str:
        was = f"its attribute {self.name} was {self.before} after step {self.saved}"
        return f"{was}, and is {self.after} after the resume"


def lost_attributes(whole: Evidence, resumed: Evidence, component: str, saved: int) -> list[Lost]:
    """What a component had after step ``saved``, and has not when the run goes on from there."""
    first = _attributes(whole, component, 1)
    before, after = (_attributes(evidence, component, saved + 1) for evidence in (whole, resumed))
    return [
        Lost(name, value, after.get(name, "not there"), saved)
        for name, value in before.items()
        if value != first.get(name) and value != after.get(name)
    ]


def comes_back(lost: Lost, whole: Evidence, resumed: Evidence, component: str) -> bool:
    """Whether it is as it would be from the next step on, as what is made when it is first needed."""
    later = [step for step, noted in whole.attributes.items() if step > lost.saved + 1 and component in noted]
    pairs = [[_attributes(one, component, step).get(lost.name) for one in (whole, resumed)] for step in later]
    return bool(pairs) and all(one == other for one, other in pairs)


def _attributes(evidence: Evidence, component: str, step: int) -> Attributes:
    """As they were before a step."""
    return evidence.attributes.get(step, {}).get(component, {})
