"""What a rehearsal found to be wrong, in words that name the components, and what it could not check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.api.outcome import Outcome
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.shapes import needs_data
from pipeline.engine.trail import Trail, shape_of
from pipeline.errors import PipelineError, Problem

_FITTING = "arguments of the two with which shapes and types fit"


@dataclass(frozen=True)
class Unchecked:
    """What a rehearsal could not tell."""

    key: str
    """The component."""
    reason: str


@dataclass
class Findings:
    """Filled while a step is rehearsed; an error that only the missing data explains is no problem."""

    experiment: Experiment
    trail: Trail
    problems: list[Problem] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)

    def leave(self, key: str, reason: str) -> None:
        """Something was not checked; the same twice counts once."""
        one = Unchecked(key, " ".join(reason.split()))
        if one not in self.unchecked:
            self.unchecked.append(one)

    def refuse(self, part: Part, message: str, expected: str = "") -> None:
        """Something would fail; the same twice counts once."""
        problem = Problem(part.place, part.key, message, expected)
        if problem not in self.problems:
            self.problems.append(problem)

    def note(self, part: Part, what: str, error: Exception, expected: str = "") -> None:
        """An error of one component."""
        reason = needs_data(error)
        if reason is not None:
            self.leave(part.key, reason)
        else:
            self.refuse(part, f"{part.kind} {part.type!r} {what}: {_text(error)}", expected)

    def note_forward(self, dataset: Part, batch: Any, error: Exception) -> None:
        """An error on the way from a batch to a loss: in the model, or in the objective around it."""
        given = shape_of(batch)
        if self.trail.entered:
            what = f"does not take what {dataset} gives, {given}; in {self.trail.described()}"
            self.note(self.experiment.model, what, error, _FITTING)
        elif self.trail.output:
            what = (
                f"does not take what {self.experiment.model} gives, {self.trail.output}, "
                f"with a batch of {dataset}, {given}"
            )
            self.note(self.experiment.objective, what, error, _FITTING)
        else:
            what = f"does not take a batch of {dataset}, {given}"
            self.note(self.experiment.objective, what, error, _FITTING)

    def note_metric(self, metric: Part, outcome: Outcome, error: Exception) -> None:
        """An error of a metric that was shown an outcome."""
        what = (
            f"does not take what {self.experiment.objective} gives, predictions "
            f"{shape_of(outcome.predictions)} and targets {shape_of(outcome.targets)}"
        )
        self.note(metric, what, error, _FITTING)


def _text(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text if isinstance(error, PipelineError) else f"{type(error).__name__}: {text}"
