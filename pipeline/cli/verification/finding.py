"""What has been found out, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline.cli.verification.laboratory import Outcome
from pipeline.config.config import Config
from pipeline.config.masking import mask
from pipeline.config.plan import ComponentPlan

Verdict = Literal["passed", "failed", "not made"]


@dataclass(frozen=True)
class Finding:
    """One thing that a component does wrong."""

    component: str
    """The key of who is to blame, as ``dataset.train``; empty where it cannot be told."""
    type: str
    place: str
    """The config line that names it, ``pipeline.toml:12:1``."""
    message: str
    remedy: str

    def __str__(self) -> str:
        who = f"{self.component} ({self.type}, {self.place})" if self.component else "unknown"
        return f"{who}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Check:
    """One promise, and whether this config keeps it."""

    name: str
    title: str
    verdict: Verdict
    detail: str
    """What was compared and how closely, or why it was not."""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """What is worth knowing and no failure."""


class Blame:
    """Finds the config's line for a component's key."""

    def __init__(self, config: Config) -> None:
        self._parts: Mapping[str, ComponentPlan] = {part.key: part for part in config.plan.parts()}
        self._hidden = config.hidden

    def finding(self, component: str, message: str, remedy: str) -> Finding:
        """A finding about the component with this key; of no key of the config, about none."""
        part = self._parts.get(component)
        message = mask(message, self._hidden)
        if part is None:
            return Finding("", "", "", message, remedy)
        return Finding(component, part.type, str(part.place), message, remedy)

    def kind(self, component: str) -> str:
        """The component's kind; empty where there is none."""
        part = self._parts.get(component)
        return str(part.kind) if part else ""

    def by_outcome(self, outcome: Outcome) -> Finding:
        """A trial that has not ended as it should have."""
        what = str(outcome.order.trial or "a look at the components alone")
        failure = outcome.failure
        if failure is None:
            last = outcome.log().rstrip().rpartition("\n")[2]
            statuses = " and ".join(map(str, outcome.statuses))
            said = f"the last line was {last!r}" if last else "without a word"
            return self.finding(
                "", f"{what}: ended with status {statuses}, {said}", "`pipeline run` shows more"
            )
        if failure.explained:
            return self.finding(failure.component, f"{what} fails: {failure.message}", "")
        message = (
            f"{what} fails after step {failure.step}: {failure.type}: {failure.message.partition(chr(10))[0]}"
        )
        return self.finding(failure.component, message, "`pipeline run` shows the traceback")


def judged(name: str, title: str, detail: str, findings: list[Finding], notes: tuple[str, ...] = ()) -> Check:
    """Passed where nothing was found; each thing is said once."""
    unique = tuple(dict.fromkeys(findings))
    return Check(name, title, "failed" if unique else "passed", detail, unique, notes)


def not_made(name: str, title: str, why: str) -> Check:
    return Check(name, title, "not made", why)
