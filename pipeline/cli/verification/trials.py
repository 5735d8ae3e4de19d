"""Making one trial after another, each with a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.cli.verification.laboratory import Laboratory, Outcome
from pipeline.cli.verification.trial import Order, Subject, Trial


class Trials:
    """Makes trials of one config.

    Args:
        here, elsewhere: laboratories that hash strings with different seeds.
        say: told what is being done.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        here: Laboratory,
        elsewhere: Laboratory,
        say: Callable[[str], None],
    ) -> None:
        self._subject = subject
        self._folder = folder
        self._here = here
        self._elsewhere = elsewhere
        self._say = say
        self._numbers = count(1)

    def make(self, trial: Trial) -> Outcome:
        """Train a few steps."""
        self._say(str(trial))
        laboratory = self._elsewhere if trial.elsewhere else self._here
        return laboratory.make(self._order(trial))

    def resume(self, killed: Outcome) -> Outcome:
        """Go on with a trial that was killed, to the end that it was to have."""
        assert killed.order.trial is not None
        trial = replace(killed.order.trial, save_after=None, kill_after=None, resumes=killed.order.trial)
        self._say(str(trial))
        return self._here.make(replace(self._order(trial), resume_from=str(killed.order.run_folder)))

    def probe(self, *, double: bool) -> Outcome:
        """Look at the components one by one.

        Args:
            double: build model and objective in float64.
        """
        self._say("looking at datasets, objective and metrics alone")
        return self._here.make(replace(self._order(None), double=double))

    def _order(self, trial: Trial | None) -> Order:
        return Order(subject=self._subject, folder=str(self._folder / f"{next(self._numbers)}"), trial=trial)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Where everything that trials write goes."""
    with TemporaryDirectory(prefix="pipeline-verify-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
