"""Ending a trial of a sweep that does worse than the others."""

from __future__ import annotations

import copy
import logging
from typing import Annotated, Any

from annotated_types import Ge

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.api.trial import PRUNED, HandedTrial, open_storage
from pipeline.components.hooks.tracker import missing

_log = logging.getLogger(__name__)


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
        """Tell Optuna the value, once, and ask.

        A resumed run does some evaluations again. Those that it told before it was killed are told
        already, and what comes after this one is not looked at: it is of a time that is still to come.
        """
        from optuna import load_study
        from optuna.pruners import MedianPruner
        from optuna.samplers import RandomSampler
        from optuna.trial import Trial

        step = self._evaluations - 1
        with open_storage(handed.file) as storage:
            study = load_study(study_name=handed.study, storage=storage, sampler=RandomSampler())
            told = copy.copy(study.get_trials(deepcopy=False)[handed.number])
            if step not in told.intermediate_values:
                Trial(study, told._trial_id).report(value, step)  # no other way to a trial of another process
            earlier = {at: one for at, one in told.intermediate_values.items() if at < step}
            told.intermediate_values = {**earlier, step: value}
            return MedianPruner(self.startup_trials, self.warmup_evaluations).prune(study, told)

    def state_dict(self) -> dict[str, Any]:
        return {"evaluations": self._evaluations}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._evaluations = state["evaluations"]
