"""Processes that signal themselves at a chosen moment of the run.

The variable SIGNAL says when, who and what: "MOMENT RANK NUMBER", where the rank may be "all". So the
config is the same with and without it, and a stopped run can be resumed by the same command.
"""

from __future__ import annotations

import os

from parts import Net, Points
from pipeline import Hook, register
from pipeline.cli import attempt
from pipeline.runs import store


class Once:
    """This process's signal, if it is to have one; it comes once."""

    def __init__(self) -> None:
        moment, rank, number = os.environ.get("SIGNAL", "never all 15").split()
        self.moment = moment if rank in ("all", os.environ.get("RANK")) else "never"
        self.number = int(number)

    def at(self, moment: str) -> None:
        if moment == self.moment:
            self.moment = "never"
            os.kill(os.getpid(), self.number)


SIGNAL = Once()


class Steps:
    """How many steps this process has done, its evaluations and hooks included."""

    done = 0


STEPS = Steps()


@register("model", "signalling")
class SignallingNet(Net):
    """At the moment "start", when it is built; at "twice", again when that stop is recorded."""

    def __init__(self) -> None:
        super().__init__()
        SIGNAL.at("start")
        if SIGNAL.moment == "twice":
            real = attempt.finish

            def finish(*arguments, **options):
                os.kill(os.getpid(), SIGNAL.number)
                real(*arguments, **options)

            attempt.finish = finish
            SIGNAL.at("twice")


@register("dataset", "signalling")
class SignallingPoints(Points):
    """At the moments "sample", in the middle of step 4, and "evaluation", in that after step 4."""

    def __init__(self, length: int, moment: str) -> None:
        super().__init__(length)
        self.moment = moment

    def __getitem__(self, index: int):
        if STEPS.done == 3:
            SIGNAL.at(self.moment)
        return super().__getitem__(index)


@register("hook", "late_thrower")
class LateThrower(Hook):
    """Fails when the run is over."""

    def on_run_end(self, run):
        raise ValueError("broken at the end")


@register("hook", "signalling")
class Signalling(Hook):
    """At the moments "step" (after step 4), "snapshot" (of step 3) and "write" (of its checkpoint)."""

    ranks = "all"

    def on_run_start(self, run):
        real = store.write_hashed

        def write(path, content):
            SIGNAL.at("write")
            return real(path, content)

        store.write_hashed = write

    def on_step_end(self, run):
        STEPS.done = run.step
        if run.step == 4:
            SIGNAL.at("step")

    def state_dict(self):
        if STEPS.done == 3:
            SIGNAL.at("snapshot")
        return {}
