"""An Optuna study in a file, and its trials: which are there, which come next, what became of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.grid import Axis
from pipeline.cli.monitor import Monitor
from pipeline.cli.space import Dimension
from pipeline.components.hooks.optuna_pruning import HandedTrial, opened
from pipeline.errors import RunError

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial


@dataclass(frozen=True)
class Trial:
    """One choice of values."""

    handle: OptunaTrial
    overrides: tuple[str, ...]
    """Each as ``--set`` takes it."""

    @property
    def number(self) -> int:
        """From 0, as Optuna counts."""
        return self.handle.number


class Study:
    """What Optuna knows of a sweep. One process at a time may have it."""

    def __init__(self, study: OptunaStudy, url: str, space: Sequence[Dimension], metric: str) -> None:
        self._study = study
        self._url = url
        self._space = space
        self._metric = metric

    def trials(self, wanted: int) -> Iterator[Trial]:
        """Those that were begun and have not ended, then new ones, until ``wanted`` have not failed.

        The values of a trial that failed in an earlier sweep are tried again, as a new trial. Those of a
        new one depend on the study and on the trials that have ended, not on how often it was opened.
        """
        settled, begun, failed = self._by_state()
        left = max(0, wanted - len(settled))
        for one in begun[:left]:
            yield self._with_values(self._handle_of(one))
        again = self._lost(failed, [*settled, *begun])
        for _ in range(left - len(begun)):
            if again:
                self._study.enqueue_trial(again.pop(0))
            self._study.sampler = self._sampler(len(self._study.get_trials(deepcopy=False)))
            yield self._with_values(self._study.ask())

    @property
    def settled(self) -> int:
        """Trials that are complete or pruned."""
        return len(self._by_state()[0])

    @property
    def best(self) -> FrozenTrial | None:
        """The best of the complete trials."""
        from optuna.trial import TrialState

        complete = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return self._study.best_trial if complete else None

    def complete(self, trial: Trial, value: float, run: str) -> None:
        """The trial's run has gone its whole length."""
        trial.handle.set_user_attr("run", run)
        self._study.tell(trial.handle, value)

    def prune(self, trial: Trial, run: str) -> None:
        """The trial's run was ended early; its value is the last that it has told."""
        from optuna.trial import TrialState

        trial.handle.set_user_attr("run", run)
        self._study.tell(trial.handle, state=TrialState.PRUNED)

    def fail(self, trial: Trial) -> None:
        """The trial has no value."""
        from optuna.trial import TrialState

        self._study.tell(trial.handle, state=TrialState.FAIL)

    def handed(self, trial: Trial) -> HandedTrial:
        """What the trial's run is to know."""
        return HandedTrial(self._url, self._study.study_name, trial.number, self._metric)

    def _by_state(self) -> tuple[list[FrozenTrial], list[FrozenTrial], list[FrozenTrial]]:
        """The trials with a value, those that were begun and not ended, and those that failed."""
        from optuna.trial import TrialState

        found = self._study.get_trials(deepcopy=False)
        return (
            [one for one in found if one.state in (TrialState.COMPLETE, TrialState.PRUNED)],
            [one for one in found if one.state == TrialState.RUNNING],
            [one for one in found if one.state == TrialState.FAIL],
        )

    def _lost(self, failed: Sequence[FrozenTrial], others: Sequence[FrozenTrial]) -> list[dict[str, Any]]:
        """The values, each once, of trials that failed and that no other trial has."""
        lost: list[dict[str, Any]] = []
        for one in failed:
            has_all = len(one.params) == len(self._space)
            if has_all and one.params not in lost and all(one.params != other.params for other in others):
                lost.append(one.params)
        return lost

    def _handle_of(self, trial: FrozenTrial) -> OptunaTrial:
        from optuna.trial import Trial as Handle

        self._study.sampler = self._sampler(trial.number)
        return Handle(self._study, trial._trial_id)  # Optuna has no other way to a trial of another process

    def _with_values(self, handle: OptunaTrial) -> Trial:
        """Draws what the trial has no value of yet: all of them, or what a kill has left out."""
        return Trial(handle, tuple(f"{one.key}={_suggested(handle, one)}" for one in self._space))

    def _sampler(self, number: int) -> Any:
        """Optuna's default, with a seed of its own for each trial: a study that is opened again must not
        draw what it has drawn."""
        from optuna.samplers import TPESampler

        digest = hashlib.sha256(f"{self._study.study_name} {number}".encode()).digest()
        return TPESampler(seed=int.from_bytes(digest[:4], "big"))


@contextmanager
def open_study(folder: Path, space: Sequence[Dimension], monitor: Monitor) -> Iterator[Study]:
    """The study of a folder, which is made if it is not there.

    It is a SQLite file: of a write that was killed it takes back what is half done, whereas the journal
    that Optuna also offers can be read no more after a torn line.

    Raises:
        RunError: if Optuna is missing, or another process has the study.
    """
    try:
        import optuna
    except ImportError as error:
        raise RunError("--optuna needs the package optuna: pip install 'pipeline-ddp[optuna]'") from error
    url = f"sqlite:///{folder.absolute() / 'study.db'}"
    with _alone_in(folder), opened(url) as storage:
        study = optuna.create_study(
            study_name=folder.name,
            storage=storage,
            direction="maximize" if monitor.mode == "max" else "minimize",
            load_if_exists=True,
        )
        yield Study(study, url, space, monitor.metric)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system takes back from a process that is killed."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise RunError(f"{folder}: cannot be made: {error.strerror}; name another with --runs-dir") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(f"{folder}: another sweep has this study; wait for its end, or stop it") from error
        except OSError as error:  # a file system without locks
            message = (
                f"{folder}: cannot be locked: {error.strerror}; name a folder of another disk with --runs-dir"
            )
            raise RunError(message) from error
        yield


def _suggested(handle: OptunaTrial, one: Dimension) -> str:
    """A value, as ``--set`` takes it; the one that the trial has already, if it has."""
    if isinstance(one, Axis):
        return str(handle.suggest_categorical(one.key, one.values))
    if one.kind == "int":
        return str(handle.suggest_int(one.key, int(one.low), int(one.high)))
    return repr(float(handle.suggest_float(one.key, one.low, one.high, log=one.kind == "log")))
