"""Whether the number of processes leaves the experiment as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.cli.verification import distance
from pipeline.cli.verification.culprit import culprit
from pipeline.cli.verification.evidence import Evidence, Values, first_difference, shared_entries
from pipeline.cli.verification.finding import Blame, Check, Finding, judged
from pipeline.cli.verification.remedies import INVARIANT, REPEATABLE
from pipeline.cli.verification.trial import processes

NAME, TITLE = "invariance", "the same with any number of processes"

_SUM = "give the sum of the loss over the samples, not its mean: Outcome(loss.sum())"

Ranks = Sequence[Evidence]


@dataclass(frozen=True)
class Tolerance:
    """How close is equal: the rounding of sums in another order."""

    number: str
    first: float
    """Of the first step's gradients, relative to the norm of all of them."""
    later: float
    """Of parameters and later steps, where rounding has been trained on."""

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
    """What the probe tells of why losses may differ."""

    mean_objective: bool = False
    """The loss of a batch is the mean of those of its parts, not their sum."""
    in_batch: bool = False
    """The loss of a batch is no sum over its parts: samples see one another."""


def check(
    blame: Blame,
    trials: Mapping[int, Ranks],
    plain: Ranks,
    tolerance: Tolerance,
    suspects: Suspects,
) -> Check:
    """Compare the trials with the smallest one, and the ranks of each with one another.

    Args:
        trials: by world size, each without dropout and with running batch statistics.
        plain: the ranks of a trial of the config as it is.
    """
    smallest, *others = sorted(trials)
    reference = trials[smallest]
    compared = _what_is_compared(reference[0])
    findings = [
        found for ranks in (*trials.values(), plain) if ranks and (found := between_ranks(blame, ranks))
    ][:1]
    notes = list(_limits(reference[0]))
    for size in others:
        comparison = _Comparison(blame, reference, trials[size], tolerance, suspects, notes)
        found = comparison.finding()
        if found and not findings:
            findings.append(found)
    sizes = " and ".join(map(processes, (smallest, *others)))
    detail = f"{compared} of {len(reference[0].values)} steps with {sizes}, {tolerance}"
    return judged(NAME, TITLE, detail, findings, tuple(dict.fromkeys(notes)))


def between_ranks(blame: Blame, ranks: Ranks) -> Finding | None:
    """Whether all ranks of a trial have the same where they must."""
    first, *others = map(shared_entries, ranks)
    for rank, other in enumerate(others, 1):
        difference = first_difference(first, other)
        if difference is None:
            continue
        # What a rank alone has changed, it alone has noted: a hook rather than whose value it changed.
        hooks = (name for name in difference.components if name.startswith("hooks."))
        component = next(hooks, difference.component)
        entry = difference.entry
        return blame.finding(
            component,
            f"at step {entry.step} rank {rank} differs from rank 0 in {entry.what}",
            INVARIANT.get(blame.kind(component), ""),
        )
    return None


def _limits(reference: Evidence) -> list[str]:
    limits = []
    if reference.neutralised:
        limits.append(
            "compared with dropout at 0 and batch norm on its running statistics in "
            f"{', '.join(reference.neutralised)}: in training these depend on the number of processes"
        )
    for component in ("model", "objective"):
        if component in reference.draws:
            limits.append(
                f"{component} draws random numbers in training, from "
                f"{' and '.join(reference.draws[component])}: processes draw different ones, so "
                "gradients are not compared"
            )
    if reference.is_stream:
        limits.append(
            "dataset.train is iterable: which samples share a global batch depends on the number of "
            "processes, so gradients are not compared"
        )
    return limits


def _comparable(reference: Evidence) -> bool:
    return not (reference.is_stream or "model" in reference.draws or "objective" in reference.draws)


def _what_is_compared(reference: Evidence) -> str:
    if _comparable(reference):
        return "gradients, parameters and metrics"
    return "learning rates" if reference.is_stream else "samples and learning rates"


@dataclass(frozen=True)
class _Comparison:
    blame: Blame
    references: Ranks
    ranks: Ranks
    tolerance: Tolerance
    suspects: Suspects
    notes: list[str]

    @property
    def reference(self) -> Evidence:
        return self.references[0]

    @property
    def _with(self) -> str:
        return f"with {processes(len(self.ranks))}"

    def finding(self) -> Finding | None:
        """The first thing that depends on the number of processes."""
        return self._items() or next(filter(None, map(self._step, self.reference.values)), None)

    def _found(self, component: str, message: str, remedy: str = "") -> Finding:
        return self.blame.finding(component, message, remedy or INVARIANT.get(self.blame.kind(component), ""))

    def _items(self) -> Finding | None:
        for rank, evidence in enumerate(self.ranks):
            for name, digests in self.reference.items.items():
                read = evidence.items.get(name, [])
                differing = [at for at, one in enumerate(digests) if read[at : at + 1] != [one]]
                if differing:
                    message = (
                        f"its sample {differing[0]} is another in rank {rank} of {processes(len(self.ranks))}"
                    )
                    remedy = INVARIANT if rank else REPEATABLE  # rank 0 is rank 0 with any number of them
                    return self._found(f"dataset.{name}", message, remedy["dataset"])
        return None

    def _step(self, step: int) -> Finding | None:
        one, two = self.reference.values[step], self.ranks[0].values.get(step)
        if two is None:
            return (
                None if self.reference.is_stream else self._found("", f"{self._with} there is no step {step}")
            )
        if one.window != two.window:
            return self._found("sampler", f"the samples of global batch {step} are others {self._with}")
        if found := self._rates(step, one, two):
            return found
        if not _comparable(self.reference):
            return None
        if self.suspects.in_batch:
            self._note_in_batch(one, two)
            return None
        return (
            self._gradients(step, one, two)
            or self._parameters(step, one, two)
            or self._metrics(step, one, two)
        )

    def _note_in_batch(self, one: Values, two: Values) -> None:
        if distance.between(one.gradients, two.gradients)[0] > self.tolerance.first:
            self.notes.append(
                "in-batch effects: the loss of a batch is no sum over its samples, so a sample sees those of "
                f"its own process alone; gradients differ {self._with}, and are not compared"
            )

    def _rates(self, step: int, one: Values, two: Values) -> Finding | None:
        pairs = zip(one.learning_rates, two.learning_rates, strict=True)
        if all(math.isclose(*pair, rel_tol=1e-9) for pair in pairs):
            return None
        rates = f"{one.learning_rates}, and {two.learning_rates} {self._with}"
        return self._found(
            self.ranks[0].owners.get("lr", "scheduler"), f"the learning rate of step {step} is {rates}"
        )

    def _gradients(self, step: int, one: Values, two: Values) -> Finding | None:
        far, name = distance.between(one.gradients, two.gradients)
        if far <= self.tolerance.of(step):
            return None
        message = (
            f"the gradient of step {step} differs {self._with}, by {far:.2g} of its norm, most in {name}"
        )
        who = culprit(step, self.references, self.ranks, self.tolerance.of(step))
        if who.component == "objective" and self.suspects.mean_objective:
            return self._found("objective", f"{message}; {who.reason}", _SUM)
        return self._found(who.component, f"{message}; {who.reason}")

    def _parameters(self, step: int, one: Values, two: Values) -> Finding | None:
        far, name = distance.between(one.parameters, two.parameters)
        if far <= self.tolerance.later:
            return None
        message = (
            f"from equal gradients the parameters after step {step} differ {self._with}, by {far:.2g} of "
            f"their norm, most in {name}"
        )
        return self._found("optimizer", message)

    def _metrics(self, step: int, one: Values, two: Values) -> Finding | None:
        for name, value in one.metrics.items():
            owner, other = self.reference.owners.get(name, ""), two.metrics.get(name)
            if owner.startswith("hooks.") or other is None or _close(value, other, 10 * self.tolerance.later):
                continue
            message = f"{name} of step {step} is {value:.6g}, and {other:.6g} {self._with}"
            if owner == "objective":
                mean = self.suspects.mean_objective
                return self._found("objective" if mean else "", message, _SUM if mean else "")
            return self._found(owner, message)
        return None


def _close(one: float, two: float, tolerance: float) -> bool:
    return math.isclose(one, two, rel_tol=tolerance, abs_tol=1e-9) or (math.isnan(one) and math.isnan(two))
