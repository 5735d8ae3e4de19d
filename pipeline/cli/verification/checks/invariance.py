"""Whether the number of processes leaves the experiment as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from pipeline.cli.verification.evidence import Evidence, Values, first_difference
from pipeline.cli.verification.finding import Blame, Check, Finding, judged
from pipeline.cli.verification.remedies import REPEATABLE
from pipeline.cli.verification.trial import processes

NAME, TITLE = "invariance", "the same with any number of processes"


@dataclass(frozen=True)
class Tolerance:
    """How close is equal: the rounding of sums in another order."""

    number: str
    first: float
    """Of the first step, relative to the norm of all gradients, or of all parameters."""
    later: float
    """Of later steps, where the rounding of earlier ones has been trained on."""

    def of(self, step: int) -> float:
        return self.first if step == 1 else self.later

    def __str__(self) -> str:
        if self.first == self.later:
            return f"{self.number}, to {self.first:g} of the norm of all"
        return f"{self.number}, to {self.first:g} of the norm of all in step 1 and {self.later:g} later"


DOUBLE = Tolerance("float64", 1e-6, 1e-6)
SINGLE = Tolerance("float32", 1e-4, 2e-2)


@dataclass(frozen=True)
class Suspects:
    """What the probe and the samples tell of why gradients differ."""

    mean_objective: bool = False
    """The loss of a batch is the mean of those of its parts, not their sum."""
    in_batch: bool = False
    """The loss of a batch is no sum over its parts: samples see one another."""


def check(
    blame: Blame, trials: Mapping[int, Sequence[Evidence]], tolerance: Tolerance, suspects: Suspects
) -> Check:
    """Compare the trials with the smallest one, and the ranks of each with one another.

    Args:
        trials: by world size, each without dropout and with running batch statistics.
    """
    smallest, *others = sorted(trials)
    reference = trials[smallest][0]
    findings: list[Finding] = []
    notes = list(_limits(reference))
    for size in others:
        found = (
            _between_ranks(blame, trials[size])
            or _Comparison(blame, reference, trials[size], tolerance, suspects, notes).finding()
        )
        if found:
            findings.append(found)
    steps = len(reference.values)
    sizes = " and ".join(map(processes, (smallest, *others)))
    detail = f"gradients, parameters and metrics of {steps} steps with {sizes}, {tolerance}"
    return judged(NAME, TITLE, detail, findings, tuple(dict.fromkeys(notes)))


def _limits(reference: Evidence) -> list[str]:
    limits = []
    if reference.neutralised:
        limits.append(
            "compared with dropout at 0 and batch norm on its running statistics in "
            f"{', '.join(reference.neutralised)}: in training these depend on the number of processes"
        )
    for component in ("model", "objective"):
        if component in reference.draws:
            drawn = " and ".join(reference.draws[component])
            limits.append(
                f"{component} draws random numbers in training, from {drawn}: processes draw different ones, "
                "so gradients are not compared"
            )
    if reference.is_stream:
        limits.append(
            "dataset.train is iterable: which samples share a global batch depends on the number of "
            "processes, so gradients are not compared"
        )
    return limits


def _between_ranks(blame: Blame, ranks: Sequence[Evidence]) -> Finding | None:
    """Whether all ranks have the same where they must."""
    first = [entry for entry in ranks[0].trace if entry.shared]
    for rank, other in enumerate(ranks[1:], 1):
        difference = first_difference(first, [entry for entry in other.trace if entry.shared])
        if difference is None:
            continue
        entry = difference.entry
        # What a rank alone has changed, it alone has noted.
        message = f"{entry.what} at step {entry.step} is another in rank {rank} than in rank 0"
        return blame.finding(
            _doer(difference.entry.component, difference.component, blame),
            message,
            _SAME_ON_ALL.get(blame.kind(_doer(entry.component, difference.component, blame)), ""),
        )
    return None


_SAME_ON_ALL = REPEATABLE | {
    "hook": 'a hook that changes training must run on every process alike: ranks = "all"'
}


def _doer(one: str, two: str, blame: Blame) -> str:
    """Of those who brought an entry about on two ranks, a hook before the component that it changed."""
    return next((name for name in (one, two) if name.startswith("hooks.")), two)


@dataclass(frozen=True)
class _Comparison:
    blame: Blame
    reference: Evidence
    ranks: Sequence[Evidence]
    tolerance: Tolerance
    suspects: Suspects
    notes: list[str]

    def finding(self) -> Finding | None:
        """The first thing that depends on the number of processes."""
        return self._samples() or next(filter(None, map(self._step, self.reference.values)), None)

    @property
    def _with(self) -> str:
        return f"with {len(self.ranks)} processes"

    def _samples(self) -> Finding | None:
        for rank, evidence in enumerate(self.ranks):
            for name, digests in self.reference.items.items():
                read = evidence.items.get(name, [])
                differing = [at for at, one in enumerate(digests) if read[at : at + 1] != [one]]
                if differing:
                    message = f"its sample {differing[0]} is another in rank {rank} {self._with}"
                    return self.blame.finding(f"dataset.{name}", message, REPEATABLE["dataset"])
        return None

    def _step(self, step: int) -> Finding | None:
        one, two = self.reference.values[step], self.ranks[0].values.get(step)
        if two is None:
            return self.blame.finding("", f"{self._with} there is no step {step}", "")
        if one.window != two.window:
            message = f"the samples of global batch {step} are others {self._with}"
            return self.blame.finding("sampler", message, REPEATABLE["sampler"])
        return (
            self._gradients(step, one, two)
            or self._rates(step, one, two)
            or self._parameters(step, one, two)
            or self._metrics(step, one, two)
        )

    @property
    def _comparable(self) -> bool:
        draws = self.reference.draws
        return not (self.reference.is_stream or "model" in draws or "objective" in draws)

    def _gradients(self, step: int, one: Values, two: Values) -> Finding | None:
        if not self._comparable:
            return None
        distance, name = _distance(one.gradients, two.gradients)
        if distance <= self.tolerance.of(step):
            return None
        message = (
            f"the gradient at step {step} differs {self._with}, by {distance:.2g} of its norm, most in {name}"
        )
        if self.suspects.mean_objective:
            remedy = "give the sum of the loss over the samples, not its mean: Outcome(loss.sum())"
            return self.blame.finding("objective", message, remedy)
        if self.suspects.in_batch:
            self.notes.append(
                f"in-batch effects: {message}. The loss of a batch is no sum over its samples, so a sample "
                "sees those of its own process alone"
            )
            return None
        return self.blame.finding("model", message, REPEATABLE["model"])

    def _rates(self, step: int, one: Values, two: Values) -> Finding | None:
        if all(
            math.isclose(a, b, rel_tol=1e-9)
            for a, b in zip(one.learning_rates, two.learning_rates, strict=True)
        ):
            return None
        message = (
            f"the learning rate of step {step} is {one.learning_rates}, and {two.learning_rates} {self._with}"
        )
        return self.blame.finding(
            self.ranks[0].owners.get("lr", "scheduler"), message, REPEATABLE["scheduler"]
        )

    def _parameters(self, step: int, one: Values, two: Values) -> Finding | None:
        if not self._comparable or self.suspects.in_batch:
            return None
        distance, name = _distance(one.parameters, two.parameters)
        if distance <= self.tolerance.of(step):
            return None
        message = (
            f"from equal gradients the parameters after step {step} differ {self._with}, by {distance:.2g} "
            f"of their norm, most in {name}"
        )
        return self.blame.finding("optimizer", message, REPEATABLE["optimizer"])

    def _metrics(self, step: int, one: Values, two: Values) -> Finding | None:
        if not self._comparable or self.suspects.in_batch:
            return None
        for name, value in one.metrics.items():
            owner = self.reference.owners.get(name, "")
            other = two.metrics.get(name)
            if (
                owner.startswith("hooks.")
                or other is None
                or _close(value, other, 10 * self.tolerance.of(step))
            ):
                continue
            message = f"{name} at step {step} is {value:.6g}, and {other:.6g} {self._with}"
            remedy = REPEATABLE.get(self.blame.kind(owner), "")
            if owner == "objective":
                remedy = "give the sum of the loss over the samples, not its mean: Outcome(loss.sum())"
            return self.blame.finding(owner, message, remedy)
        return None


def _close(one: float, two: float, tolerance: float) -> bool:
    return math.isclose(one, two, rel_tol=tolerance, abs_tol=1e-9) or (math.isnan(one) and math.isnan(two))


def _distance(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> tuple[float, str]:
    """The norm of the difference relative to the norm of all, and the name with the largest part of it."""
    if one.keys() != two.keys():
        return math.inf, next(iter(one.keys() ^ two.keys()))
    parts = {name: float((value - two[name]).norm()) for name, value in one.items()}
    scale = math.sqrt(sum(float(value.norm()) ** 2 for value in one.values()))
    distance = math.sqrt(sum(part**2 for part in parts.values()))
    if any(map(math.isnan, parts.values())):
        return (
            (0.0, "") if all(_same_nan(one[name], two[name]) for name in one) else (math.inf, next(iter(one)))
        )
    worst = max(parts, key=lambda name: parts[name], default="")
    return (distance / scale if scale else math.inf if distance else 0.0), worst


def _same_nan(one: Tensor, two: Tensor) -> bool:
    return bool((one.isnan() == two.isnan()).all())
