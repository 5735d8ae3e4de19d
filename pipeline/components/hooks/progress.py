"""How far the run is, on standard error."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.api.hook import Hook
from pipeline.api.run import Run

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

_REDRAW_SECONDS = 0.1


@dataclass(frozen=True)
class _Mark:
    """Where the run was at some time."""

    seconds: float
    step: int
    samples: int

    @classmethod
    def of(cls, run: Run) -> _Mark:
        return cls(time.perf_counter(), run.step, run.samples_seen)


class Progress(Hook):
    """Shows epoch, step, speed, time left and the last metrics: a bar on a terminal, lines elsewhere.

    It shows values that have been read anyway and never waits for the device. NO_COLOR is honoured.

    Args:
        interval: at least so much time between two lines, which are written at log points alone.
    """

    def __init__(self, interval: timedelta = timedelta(seconds=10)) -> None:
        self.interval = interval
        self._bar: Bar | None = None

    def on_run_start(self, run: Run) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        if sys.stderr.isatty() and not console.is_dumb_terminal:
            self._bar = _open_bar(console, run)
        self._start = self._shown = _Mark.of(run)

    def on_step_end(self, run: Run) -> None:
        waited = time.perf_counter() - self._shown.seconds
        if self._bar is not None:
            if waited >= _REDRAW_SECONDS:
                self._show(run)
        elif waited >= self.interval.total_seconds() and run.step in run.metrics_steps.values():
            self._show(run)

    def on_run_end(self, run: Run) -> None:
        self._show(run)
        self._close()

    def on_exception(self, run: Run, error: BaseException) -> None:
        self._close()

    def _show(self, run: Run) -> None:
        now = _Mark.of(run)
        place, text = _place(run), _describe(run, self._start, self._shown, now)
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=run.step, description=place, text=text, refresh=True)
        else:
            sys.stderr.write(f"{place}  {text}\n")
        self._shown = now

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _open_bar(console: Console, run: Run) -> Bar:
    """A bar that is drawn when it is told to: a drawing thread would not survive a fork."""
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        auto_refresh=False,
        redirect_stdout=False,  # standard output is for results
    )
    bar.add_task(_place(run), total=run.total_steps, completed=run.step, text="")
    bar.start()
    return bar


def _place(run: Run) -> str:
    if run.total_steps is None:
        return f"epoch {run.epoch + 1}  step {run.step}"
    if run.steps_per_epoch is None:
        return f"epoch {run.epoch + 1}  step {run.step}/{run.total_steps}"
    epochs = -(-run.total_steps // run.steps_per_epoch)
    return f"epoch {min(run.epoch + 1, epochs)}/{epochs}  step {run.step}/{run.total_steps}"


def _describe(run: Run, start: _Mark, shown: _Mark, now: _Mark) -> str:
    """Speed since it was last shown, time left by the speed since the start, and every metric."""
    parts = []
    if now.samples > shown.samples and now.seconds > shown.seconds:
        parts.append(f"{(now.samples - shown.samples) / (now.seconds - shown.seconds):.0f} samples/s")
    if run.total_steps is not None and now.step > start.step:
        seconds_per_step = (now.seconds - start.seconds) / (now.step - start.step)
        parts.append(f"{timedelta(seconds=round((run.total_steps - now.step) * seconds_per_step))} left")
    parts += [f"{name} {value:.4g}" for name, value in run.metrics.items()]
    return "  ".join(parts)
