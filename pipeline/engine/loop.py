"""The loop: run, epoch, step, and what happens after a step, in a fixed order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.api.hook import CheckpointPolicy
from pipeline.api.metric import State
from pipeline.api.period import Period
from pipeline.engine.assembly import Assembly
from pipeline.engine.averages import Averages
from pipeline.engine.buffers import equal_buffers
from pipeline.engine.evaluate import Evaluator
from pipeline.engine.group import Group
from pipeline.engine.hook_bus import HookBus
from pipeline.engine.loss_guard import NAME as FIRST
from pipeline.engine.loss_guard import LossGuard
from pipeline.engine.position import Position
from pipeline.engine.reduction import reduce_states
from pipeline.engine.run_state import RunState
from pipeline.engine.saver import Saver
from pipeline.engine.stop import StopAgreement
from pipeline.engine.train_totals import TrainTotals
from pipeline.engine.update import Updater
from pipeline.engine.view import Requests
from pipeline.runs.metric_log import Row


@dataclass
class Loop:
    """The training loop of one attempt; everything it works with is built."""

    assembly: Assembly
    updater: Updater
    evaluator: Evaluator
    hooks: HookBus
    policy: CheckpointPolicy | None
    state: RunState
    group: Group
    stop: StopAgreement
    saver: Saver
    guard: LossGuard | None
    """Where a hook requires a finite training loss."""
    averages: Averages
    write_row: Callable[[Row], None]
    """Appends to metrics.jsonl, on rank 0."""
    stopped_by_signal: bool = False

    def run(self) -> None:
        """Train until the length is reached, a hook asks to stop, or a signal does."""
        self.saver.require_room()
        asked = self.hooks.begin(self.group)
        if self.state.unfinished:
            self._conclude_step()
        self.state.stop = self.state.stop or asked.stop
        while not self._complete and not self._ends:
            self._epoch()
        self._save_the_end()
        self.hooks.call("on_run_end")
        if not self.stopped_by_signal:  # else the row would cut what the resumed run measures as one
            self._log()

    @property
    def position(self) -> Position:
        return self.state.position

    @property
    def _ends(self) -> bool:
        return self.stopped_by_signal or self.state.stop is not None

    @property
    def _complete(self) -> bool:
        """Whether the run has its length; epochs are counted as such, since they may differ in steps."""
        train = self.assembly.experiment.train
        if train.steps is not None:
            return self.position.step >= train.steps
        return self.position.epochs_done >= (train.epochs or 0)

    def _epoch(self) -> None:
        """Go through an epoch from the position on; the position stays at its end until the next begins."""
        position = self.position
        if not self.stop.may_begin(position.step + 1):  # before the epoch is begun, so that it begins once
            self.stopped_by_signal = True
            return
        if position.epoch_ended:
            position.next_epoch()
        if position.step_in_epoch == 0:
            self.hooks.call("on_epoch_start")
        shares = self.assembly.data.train.epoch(position.epoch, position.step_in_epoch)
        while not position.epoch_ended:
            if self._complete or self._ends:
                return
            if not self.stop.may_begin(position.step + 1):
                self.stopped_by_signal = True
                return
            self.saver.check()
            position.set_phase("dataset.train")
            share = next(shares)
            if self.updater.step(share):
                position.set_phase("scheduler")
                self.assembly.schedule.after_step()
            position.advance(share.window_size, epoch_ended=share.is_last())
            if self.guard is not None:
                self.guard.note(self.state.totals.finite)
            self._after_step()

    def _after_step(self) -> None:
        """After the update: log, evaluate, hooks in the file's order, and the checkpoint last."""
        if self._logs():
            self._log()
        if self.position.epoch_ended:
            self.assembly.schedule.after_epoch()
        self._conclude_step()

    def _conclude_step(self) -> None:
        """From the evaluation on; where that is left for a signal, the resumed run begins with this."""
        position, at_epoch_end = self.position, self.position.epoch_ended
        evaluates = bool(self.evaluator.readers) and self._due(self.assembly.experiment.train.evaluate_every)
        self.state.unfinished = evaluates and not self._evaluate()
        if self.state.unfinished:
            self.stopped_by_signal = True
            return
        events = ["on_step_end"] + ["on_evaluate_end"] * evaluates + ["on_epoch_end"] * at_epoch_end
        for event in events:
            self.hooks.call(event)
        requests = self._requests(joined=self._logs() or evaluates or at_epoch_end)
        self.state.stop = requests.stop
        if self._complete or self._ends:
            self._log()  # all that is left, before the last checkpoint
        if self.policy and self._due(self.policy.every):
            self._save(f"every {self.policy.every}")
        elif requests.checkpoint is not None:
            self._save(requests.checkpoint)
        position.set_phase("between steps")

    def _due(self, period: Period) -> bool:
        position = self.position
        return period.due(
            step=position.step, epochs_done=position.epochs_done, at_epoch_end=position.epoch_ended
        )

    def _logs(self) -> bool:
        return self._due(self.assembly.experiment.train.log_every) or self._complete

    def _requests(self, *, joined: bool) -> Requests:
        """What hooks ask for: agreed on where a step joins the ranks anyway, which gated wishes wait for."""
        if joined:
            return self.hooks.agree(self.group) if self.hooks.may_have_asked() else Requests()
        wishes = Requests(self.hooks.now.stop, self.hooks.now.checkpoint)
        self.hooks.now.clear()
        return wishes

    def _log(self) -> None:
        """Write the row of what came since the last one: one collective for all values in it."""
        self.position.set_phase("reducing metrics")
        states: dict[str, State] = {}
        if not self.state.is_logged:
            states["train/loss"] = self.state.totals.state()
            if self.guard is not None:
                states[FIRST] = self.guard.state
        if self.hooks.may_have_logged() or states:
            states |= self.averages.states()
        values = self._joined(states) if states else {}
        logged = self.state.logged
        values |= {name: float(value) for name, value in logged.recorded.items()}
        self.state.totals.reset()
        logged.clear()
        if values:
            self._publish(values)

    def _joined(self, states: dict[str, State]) -> dict[str, float]:
        """The values of a row that are joined over the ranks."""
        sums = dict(zip(states, reduce_states(list(states.values()), self.group, list(states)), strict=True))
        if self.guard is not None and FIRST in sums:
            self.guard.require(sums[FIRST])
        values: dict[str, float] = {}
        if "train/loss" in sums:
            values = TrainTotals.values(sums["train/loss"])
            values["lr"] = float(self.updater.learning_rate)
        return values | self.averages.take(sums)

    def _evaluate(self) -> bool:
        """Evaluate; False, on all ranks, if it was left because the run is to stop."""
        if self.guard is not None:
            self.guard.check(self.group)
        self.position.set_phase("evaluation")
        rule = self.assembly.experiment.distributed.buffers
        with equal_buffers(self.assembly.step_module, self.group, rule):
            values = self.evaluator.run(self.position.epoch)
        if values is None:
            return False
        self._publish(values)
        self.position.set_phase("scheduler")
        self.assembly.schedule.after_evaluation(values)
        return True

    def _publish(self, values: dict[str, float]) -> None:
        self.state.publish(values)
        self.write_row(
            {"step": self.position.step, "epoch": self.position.epoch, **values, "time": time.time()}
        )

    def _save(self, reason: str) -> None:
        if self.guard is not None:
            self.guard.check(self.group)
        self.saver.save(reason)

    def _save_the_end(self) -> None:
        """Every rank stands behind the same step, and leaves with its checkpoint complete."""
        saved = self.saver.settle()
        if self.position.step > saved and (self.stopped_by_signal or self.policy):
            self._save("a signal" if self.stopped_by_signal else "the end of the run")
            self.saver.settle()
