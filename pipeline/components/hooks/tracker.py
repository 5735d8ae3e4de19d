"""What all hooks that hand the run's values to a tracker have in common."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pipeline.api.hook import Hook
from pipeline.api.run import Run
from pipeline.errors import ComponentError

_log = logging.getLogger(__name__)


class Tracker(Hook):
    """Hands each value of the run to a tracker, once, at the step where it was measured.

    A subclass says how to open, write and close. Where one of these raises, the hook warns and leaves
    the tracker alone from then on: the training goes on, and metrics.jsonl has every value. A package
    that is missing is a mistake in the set-up, and ends the run before its first step.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._seen: dict[str, int] = {}

    def open(self, run: Run) -> None:
        """Begin, or go on with what an earlier attempt has written up to ``run.step``."""
        raise NotImplementedError

    def write(self, run: Run, step: int, values: Mapping[str, float]) -> None:
        """Write the values measured at a step, so that a kill does not take them back.

        Steps come in rising order; the last one may come again, with other names.
        """
        raise NotImplementedError

    def close(self, run: Run, error: BaseException | None) -> None:
        """End this attempt, which ``error`` has ended, or nothing."""
        raise NotImplementedError

    def on_run_start(self, run: Run) -> None:
        self._seen = dict(run.metrics_steps)
        self._is_open = True
        with self._forgiven():
            self.open(run)

    def on_step_end(self, run: Run) -> None:
        self._write_new(run)

    def on_run_end(self, run: Run) -> None:
        self._write_new(run)
        self._end(run, None)

    def on_exception(self, run: Run, error: BaseException) -> None:
        self._end(run, error)

    def _write_new(self, run: Run) -> None:
        if not self._is_open or self._seen == run.metrics_steps:
            return
        by_step: dict[int, dict[str, float]] = defaultdict(dict)
        for name, step in run.metrics_steps.items():
            if self._seen.get(name) != step:
                by_step[step][name] = run.metrics[name]
        self._seen = dict(run.metrics_steps)
        with self._forgiven():
            for step in sorted(by_step):
                self.write(run, step, by_step[step])

    def _end(self, run: Run, error: BaseException | None) -> None:
        if self._is_open:
            with self._forgiven():
                self.close(run, error)
            self._is_open = False

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        try:
            yield
        except ComponentError:
            raise
        except Exception as error:  # noqa: BLE001 - of any kind: a tracker is no reason to lose a run
            self._is_open = False
            _log.warning(
                "hook %s: %s: %s; the run goes on without it, metrics.jsonl has every value",
                type(self).__name__,
                type(error).__name__,
                error,
            )


def missing(hook: str, package: str) -> ComponentError:
    """The error for a tracker whose package is not installed."""
    return ComponentError(f"hook {hook} needs the package {package}: pip install 'pipeline-ddp[{hook}]'")
