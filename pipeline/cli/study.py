"""An Optuna study in a file, and its trials: which are there, which come next, what became of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.api.trial import HandedTrial, open_storage
from pipeline.cli.grid import Axis
from pipeline.cli.monitor import Monitor
from pipeline.cli.space import Dimension
from pipeline.errors import RunError

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial

_KEPT = "complete runs are kept and not run again if it is moved away"


@dataclass(frozen=True)
class Trial:
    """One choice of values."""

    handle: OptunaTrial
    overrides: tuple[str, ...]
    """Each as ``--set`` takes it."""
    begun: bool
    """Whether an earlier sweep has begun it: the run of these values is its own."""

    @property
    def number(self) -> int:
        """From 0, as Optuna counts."""
        return self.handle.number


class Study:
    """What Optuna knows of a sweep. One process at a time may have it."""

    def __init__(self, study: OptunaStudy, file: Path, space: Sequence[Dimension], metric: str) -> None:
        self._study = study
        self._file = file
        self._space = space
        self._metric = metric

    def trials(self, wanted: int) -> Iterator[Trial]:
        """Those that were begun and have not ended, then new ones, until there are ``wanted`` in total.

        One that failed counts, and is not tried again: what always fails would be tried for ever. The values
        of a new one depend on the study and on the trials that have ended, not on how often it was opened.
        """
        ended, begun = self._by_state()
        left = max(0, wanted - len(ended))
        for one in begun[:left]:
            yield self._with_values(self._handle_of(one), begun=True)
        for _ in range(left - len(begun)):
            self._study.sampler = self._sampler(len(self._study.get_trials(deepcopy=False)))
            yield self._with_values(self._study.ask(), begun=False)

    @property
    def ended(self) -> int:
        """Trials that are complete, pruned or failed."""
        return len(self._by_state()[0])

    @property
    def failed(self) -> Sequence[FrozenTrial]:
        """Those without a value; their attributes tell the ``failure`` and, if there is one, the ``run``."""
        from optuna.trial import TrialState

        return self._study.get_trials(deepcopy=False, states=(TrialState.FAIL,))

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

    def fail(self, trial: Trial, why: str, run: str | None = None) -> None:
        """The trial has no value."""
        from optuna.trial import TrialState

        trial.handle.set_user_attr("failure", why)
        if run is not None:
            trial.handle.set_user_attr("run", run)
        self._study.tell(trial.handle, state=TrialState.FAIL)

    def handed(self, trial: Trial) -> HandedTrial:
        """What the trial's run is to know."""
        return HandedTrial(str(self._file), self._study.study_name, trial.number, self._metric)

    def _by_state(self) -> tuple[list[FrozenTrial], list[FrozenTrial]]:
        """The trials that have ended, and those that were begun and have not."""
        from optuna.trial import TrialState

        found = self._study.get_trials(deepcopy=False)
        return (
            [one for one in found if one.state.is_finished()],
            [one for one in found if one.state == TrialState.RUNNING],
        )

    def _handle_of(self, trial: FrozenTrial) -> OptunaTrial:
        from optuna.trial import Trial as Handle

        self._study.sampler = self._sampler(trial.number)
        return Handle(self._study, trial._trial_id)  # Optuna has no other way to a trial of another process

    def _with_values(self, handle: OptunaTrial, *, begun: bool) -> Trial:
        """Draws what the trial has no value of yet: all of them, or what a kill has left out."""
        return Trial(handle, tuple(f"{one.key}={_suggested(handle, one)}" for one in self._space), begun)

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
        RunError: if Optuna is missing, another process has the study, another version of Optuna made it,
            or, inside as well, the file fails.
    """
    try:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise RunError("--optuna needs the package optuna: pip install 'pipeline-ddp[optuna]'") from error
    file = folder.absolute() / "study.db"
    with _alone_in(folder):
        try:
            with _storage(file) as storage:
                study = optuna.create_study(
                    study_name=folder.name,
                    storage=storage,
                    direction="maximize" if monitor.mode == "max" else "minimize",
                    load_if_exists=True,
                )
                yield Study(study, file, space, monitor.metric)
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            why = str(error.__cause__ or error).partition("\n")[0]
            raise RunError(f"{file}: the study cannot be read or written: {why}; {_KEPT}") from error


@contextmanager
def _storage(file: Path) -> Iterator[RDBStorage]:
    """The opened file; what goes wrong inside is passed on.

    Raises:
        RunError: if a version of Optuna made it that has another schema.
    """
    with ExitStack() as opened:
        try:
            storage = opened.enter_context(open_storage(file))
        except RuntimeError as error:  # which says how to upgrade the one or the other
            why = str(error).replace("$STORAGE_URL", f"sqlite:///{file}")
            raise RunError(f"{file}: the study is of another version of Optuna: {why} Or: {_KEPT}") from error
        yield storage


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
