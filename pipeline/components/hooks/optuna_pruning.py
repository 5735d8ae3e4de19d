"""Ending a trial of a sweep that does worse than the others."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.components.hooks.tracker import missing

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

PRUNED = "pruned"
"""How the reason begins with which this hook ends a run."""

_VARIABLE = "PIPELINE_OPTUNA_TRIAL"

_PATIENCE = 60.0  # seconds that a process waits for another one's write

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HandedTrial:
    """The trial that a run is; told to it by the environment, so that its config is that of any other run."""

    storage: str
    """The address of the study's database."""
    study: str
    number: int
    metric: str
    """What the study is to better, as eval/accuracy."""

    def environment(self) -> dict[str, str]:
        """What the process of the run is to have."""
        return {_VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def received(cls) -> HandedTrial | None:
        """This process's; None where it is no trial."""
        told = os.environ.get(_VARIABLE)
        return cls(**json.loads(told)) if told else None


@contextmanager
def opened(url: str) -> Iterator[RDBStorage]:
    """A database of studies; inside, Optuna says no more than its warnings."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": _PATIENCE}})
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


class OptunaPruning(Hook):
    """Ends a trial of ``pipeline sweep --optuna`` that does worse than half of the earlier ones.

    After every evaluation Optuna is told the metric that the sweep is to better. Its median pruner
    compares the trial's best value so far with the median of the complete trials after as many evaluations.
    A run that it ends is completed, with a reason that begins with "pruned". A run that is no trial goes
    its whole length.

    Needs the extra: pip install 'pipeline-ddp[optuna]'.

    Args:
        startup_trials: complete trials that there must be before any is ended.
        warmup_evaluations: evaluations of a trial after which it is not ended yet.
    """

    def __init__(
        self, startup_trials: Annotated[int, Ge(1)] = 5, warmup_evaluations: Annotated[int, Ge(0)] = 0
    ) -> None:
        self.startup_trials = startup_trials
        self.warmup_evaluations = warmup_evaluations
        self._handed: HandedTrial | None = None
        self._evaluations = 0

    def on_run_start(self, run: Run) -> None:
        self._handed = HandedTrial.received()

    def on_evaluate_end(self, run: Run) -> None:
        self._evaluations += 1
        if self._handed is None or self._handed.metric not in run.metrics:
            return
        value = run.metrics[self._handed.metric]
        try:
            is_worse = self._is_worse(self._handed, value)
        except ImportError as error:
            raise missing("optuna_pruning", "optuna") from error
        except Exception as error:  # noqa: BLE001 - of any kind: a study is no reason to lose a run
            _log.warning(
                "hook optuna_pruning: %s: %s; the run goes its whole length", type(error).__name__, error
            )
            self._handed = None
            return
        if is_worse:
            run.stop(
                f"{PRUNED}: {self._handed.metric} {value:.6g} is worse than the median of the other trials "
                f"after {self._evaluations} evaluations"
            )

    def _is_worse(self, handed: HandedTrial, value: float) -> bool:
        """Tell Optuna the value, once, and ask."""
        from optuna import load_study
        from optuna.pruners import MedianPruner
        from optuna.samplers import RandomSampler
        from optuna.trial import Trial

        pruner = MedianPruner(self.startup_trials, self.warmup_evaluations)
        with opened(handed.storage) as storage:
            study = load_study(
                study_name=handed.study, storage=storage, sampler=RandomSampler(), pruner=pruner
            )
            frozen = study.get_trials(deepcopy=False)[handed.number]
            trial = Trial(study, frozen._trial_id)  # Optuna has no other way to a trial of another process
            step = self._evaluations - 1
            if step not in frozen.intermediate_values:  # a resumed run evaluates some steps again
                trial.report(value, step)
            return trial.should_prune()

    def state_dict(self) -> dict[str, Any]:
        return {"evaluations": self._evaluations}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._evaluations = state["evaluations"]
