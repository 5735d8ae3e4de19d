"""The trials of ``pipeline sweep --optuna``: each an ordinary run, whose metric Optuna is told."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.api.trial import is_pruned
from pipeline.cli.children import Children
from pipeline.cli.grid import Axis
from pipeline.cli.jobs import Job, Jobs
from pipeline.cli.members import Member, whole
from pipeline.cli.monitor import Monitor, monitor_of
from pipeline.cli.output import say
from pipeline.cli.space import Dimension
from pipeline.cli.study import Study, Trial
from pipeline.errors import ConfigError, Problem
from pipeline.runs.layout import safe_name
from pipeline.runs.listing import RunRow, list_runs
from pipeline.runs.record import read


@dataclass(frozen=True)
class Goal:
    """What a study is about."""

    monitor: Monitor
    folder: Path
    example: Member
    """One of its trials: what all of them have in common is as in this one."""


def goal_of(space: Sequence[Dimension], children: Children) -> Goal:
    """The metric to better, and the folder of the study that is about nothing else.

    Every value of a choice and both ends of an interval are tried on the config, before any run begins.

    Raises:
        ConfigError: with all faults, or where the config monitors no metric.
    """
    problems: dict[Problem, None] = {}
    first = tuple(one.overrides[0] for one in space)
    members = []
    for at, dimension in enumerate(space):
        for override in dimension.overrides:
            try:
                members.append(children.member((*first[:at], override, *first[at + 1 :])))
            except ConfigError as error:
                problems |= dict.fromkeys(error.problems)
    if problems:
        raise ConfigError(list(problems))
    config = members[0].config
    monitor = monitor_of(config.plan)
    if monitor is None:
        message = "the config names no metric to better"
        remedy = "hooks.checkpoint with monitor and mode, as --set hooks.checkpoint.monitor=eval/loss"
        raise ConfigError([Problem("--optuna", "", message, remedy)])
    asked = [
        members[0].experiment,
        monitor.metric,
        monitor.mode,
        sorted(map(_told, space)),
    ]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    folder = children.runs_dir / "sweeps" / f"{safe_name(config.plan.name)}-{digest[:6]}"
    return Goal(monitor, folder, members[0])


def _told(dimension: Dimension) -> list[str]:
    """A dimension as text: all values of a choice, kind and ends of an interval."""
    kind = "choice" if isinstance(dimension, Axis) else dimension.kind
    return [kind, *dimension.overrides]


@dataclass(frozen=True)
class Attempt:
    """A trial and the run that it is."""

    trial: Trial
    member: Member

    def say(self, how: str) -> None:
        """Tell people what is with it."""
        say(f"[trial {self.trial.number}] {self.member.label}: {how}")


@dataclass
class Search:
    """Hands the trials of a study to a pool of jobs, and what becomes of them to the study."""

    study: Study
    goal: Goal
    children: Children
    wanted: int
    attempts: list[Attempt] = field(default_factory=list)
    """Of this call, in the order in which they began."""
    killed: int = 0
    """Runs of this call that somebody else has ended, as a system without memory does."""
    told: set[str] = field(default_factory=set)
    """The folders of the runs that this call has told the study of."""

    def run(self, pool: Jobs) -> None:
        """Run trials until there are ``wanted``, or a signal comes.

        Raises:
            ConfigError: if the config is no longer the study's; once the runs that have begun are told of.
            RunError: if the study's file fails.
        """
        in_jobs: list[Attempt] = []
        jobs = self._jobs(pool, in_jobs)
        for index, ended in pool.run(jobs, started=lambda index: in_jobs[index].say("started")):
            if ended.status == 0:
                self._settle(in_jobs[index], self._ended(in_jobs[index]))
            elif ended.is_failure and not ended.is_killed:
                self._fail(in_jobs[index], ended.how, self._row(in_jobs[index]))
            else:
                in_jobs[index].say(ended.how)  # the study has it as begun: the next call goes on with it
                self.killed += ended.is_killed

    def _jobs(self, pool: Jobs, in_jobs: list[Attempt]) -> Iterator[Job]:
        """What is to be run, each added to ``in_jobs``; what is complete already is settled at once."""
        for trial in self.study.trials(self.wanted):
            if pool.received is not None:
                return
            self.children.refuse_another(self.goal.example)
            try:
                attempt = Attempt(trial, self.children.member(trial.overrides))
            except ConfigError as error:
                say(f"[trial {trial.number}] {' '.join(trial.overrides)}: failed\n{error}")
                self.study.fail(trial, str(error))
                continue
            self.attempts.append(attempt)
            row = self._row(attempt)
            if row is not None and row.status == "completed":
                self._settle(attempt, row)
                continue
            in_jobs.append(attempt)
            yield self.children.job(attempt.member, row, self.study.handed(trial).environment())

    def _settle(self, attempt: Attempt, row: RunRow | None) -> None:
        """Tell the study what a complete run has come to."""
        run = row.summary if row else None
        if row is None or run is None:
            self._fail(attempt, "failed: its run folder is gone", None)
            return
        self.told.add(row.folder.name)
        metric = self.goal.monitor.metric
        if is_pruned(run.reason, metric):  # a hook of the user's may prune too
            self.study.prune(attempt.trial, row.folder.name)
            attempt.say(run.reason)
            return
        value = run.best_value if run.best_metric == metric else run.metrics.get(metric)
        if value is None or not math.isfinite(value):
            got = f"its {metric} is {value}" if value is not None else f"it has no {metric}"
            remedy = "expected what hooks.checkpoint.monitor names to be a number after an evaluation"
            self._fail(attempt, f"failed: {got}; {remedy}", row)
            return
        self.study.complete(attempt.trial, value, row.folder.name)
        attempt.say(f"{metric} {value:.6g}")

    def _fail(self, attempt: Attempt, how: str, row: RunRow | None) -> None:
        failure = read(row.folder).failure if row and row.status == "failed" else None
        why = f"{failure.type}: {failure.message}" if failure else how.partition("\n")[0]
        self.study.fail(attempt.trial, why, row.folder.name if row else None)
        attempt.say(how)

    def _row(self, attempt: Attempt) -> RunRow | None:
        """The trial's run, if it has one; none that was pruned as another trial, of other rivals."""
        rows = list_runs(self.children.runs_dir)
        return attempt.member.run_in(rows if attempt.trial.begun else whole(rows))

    def _ended(self, attempt: Attempt) -> RunRow | None:
        """The run that a job has completed: of equal trials' runs, made at once, one not told of yet."""
        complete = [row for row in list_runs(self.children.runs_dir) if row.status == "completed"]
        fresh = [row for row in complete if row.folder.name not in self.told]
        return attempt.member.run_in(fresh) or attempt.member.run_in(complete)
