"""Training a run: everything is built, restored where it resumes, and handed to the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline.engine.assembly import Assembly, assemble
from pipeline.engine.averages import Averages
from pipeline.engine.background import Background
from pipeline.engine.checkpoint import Checkpoint, Checkpointing, seed_training
from pipeline.engine.evaluate import Evaluator
from pipeline.engine.experiment import Experiment
from pipeline.engine.group import Group
from pipeline.engine.hook_bus import HookBus
from pipeline.engine.loop import Loop
from pipeline.engine.loss_guard import LossGuard
from pipeline.engine.position import Position
from pipeline.engine.run_state import RunState
from pipeline.engine.saver import Saver, Say
from pipeline.engine.signals import Phase, Signals, signal_name
from pipeline.engine.stop import StopAgreement
from pipeline.engine.train_totals import TrainTotals
from pipeline.engine.update import Updater
from pipeline.engine.view import RunFacts
from pipeline.engine.warm_up import warm_up
from pipeline.engine.weights import load_strictly
from pipeline.engine.world import World
from pipeline.runs.layout import RunFolder
from pipeline.runs.metric_log import MetricLog, Row


@dataclass(frozen=True)
class Result:
    """How an attempt ended."""

    step: int
    metrics: dict[str, float]
    stopped_by_signal: bool
    reason: str
    """Why it ended before its length; empty where it reached it."""


@dataclass(frozen=True)
class Start:
    """Where an attempt begins."""

    resume: Checkpoint | None = None
    """Go on from here."""
    changed: tuple[str, ...] = ()
    """Config keys that have changed since ``resume`` was written."""
    accepted: tuple[str, ...] = ()
    """Those that count although ``resume`` has other values."""
    weights: Checkpoint | None = None
    """Begin anew with this model."""


@dataclass(frozen=True)
class Setting:
    """What surrounds one attempt."""

    folder: RunFolder
    """The run's folder, written by rank 0 alone."""
    world: World
    group: Group
    stop: StopAgreement
    signals: Signals
    position: Position
    """Shared with who reports a failure."""
    background: Background
    """Where rank 0 writes checkpoints; whoever made it waits for it when the attempt ends in an error."""
    say: Say
    """Prints a line for people, on rank 0."""
    observe: Callable[[Assembly, HookBus, RunState], None] | None = None
    """Shown what is built and restored, before the first step, by who watches the run from beside it."""


def train(experiment: Experiment, setting: Setting, start: Start) -> Result:
    """Run one attempt to its end; all ranks call it together."""
    signals, position = setting.signals, setting.position

    def built() -> None:
        setting.group.await_built()
        signals.phase = Phase.TRAINING  # from here on the ranks stop together

    saved = start.resume.reading if start.resume is not None else None
    assembly = assemble(experiment, setting.world, setting.group, position, setting.say, built, saved)
    state = RunState(position, TrainTotals(setting.world.device))
    hooks = _bound_hooks(assembly, state, setting)
    if hooks.checkpoint_policy is None:
        setting.say("no [hooks.checkpoint]: checkpoints are written only on a signal or a hook's request")
    checkpointing = Checkpointing(assembly, hooks, state, setting.group, setting.world)
    _begin(checkpointing, start, setting.say)
    del start  # nobody else holds it: as large as all of the run's state, and needed no more
    if setting.observe is not None:
        setting.observe(assembly, hooks, state)
    with _opened(setting.folder, setting.world) as write_row:
        loop = _loop(checkpointing, setting, write_row)
        try:
            loop.run()
        except BaseException as error:
            hooks.report(error)
            raise
        finally:
            signals.phase = Phase.ENDING
            assembly.data.close()
    position.set_phase("the end of the run")
    reason = state.stop.reason if state.stop else ""
    if loop.stopped_by_signal:
        reason = signal_name(signals.received) if signals.received else "a signal to another rank"
    return Result(position.step, dict(state.metrics), loop.stopped_by_signal, reason)


def _bound_hooks(assembly: Assembly, state: RunState, setting: Setting) -> HookBus:
    hooks = HookBus(assembly.hooks, setting.position.set_phase, setting.group.without_collectives)
    hooks.bind(
        RunFacts(
            state=state,
            model=assembly.model,
            optimizer=assembly.optimizer,
            folder=setting.folder.path,
            name=assembly.experiment.name,
            world=setting.world,
            train=assembly.experiment.train,
            steps_per_epoch=assembly.steps_per_epoch,
        )
    )
    return hooks


def _loop(checkpointing: Checkpointing, setting: Setting, write_row: Callable[[Row], None]) -> Loop:
    assembly, hooks, state = checkpointing.assembly, checkpointing.hooks, checkpointing.run
    policy = hooks.checkpoint_policy
    return Loop(
        assembly=assembly,
        updater=_updater(assembly, setting.group, setting.world, state),
        evaluator=_evaluator(assembly, setting, state.position),
        hooks=hooks,
        policy=policy,
        state=state,
        group=setting.group,
        stop=setting.stop,
        saver=Saver(
            checkpointing,
            policy,
            setting.folder,
            setting.background,
            setting.signals,
            setting.say,
            saved_step=state.position.step,
        ),
        guard=_guard(hooks, setting),
        averages=Averages(state.logged, setting.group, state.position.set_phase),
        write_row=write_row,
    )


def _guard(hooks: HookBus, setting: Setting) -> LossGuard | None:
    name = hooks.guards_loss
    return LossGuard(name, setting.world.device, setting.position) if name else None


def _begin(checkpointing: Checkpointing, start: Start, say: Say) -> None:
    """Bring parameters, counters and random states to where the attempt begins."""
    assembly, world = checkpointing.assembly, checkpointing.world
    if start.weights is not None:
        checkpointing.run.position.set_phase("model")
        load_strictly(assembly.model, start.weights.model, start.weights.name)
    position = checkpointing.run.position
    seed_training(assembly, world, 0)
    if start.resume is None:
        return
    position.set_phase("restoring a checkpoint")
    checkpointing.restore(start.resume, start.changed, start.accepted, say)
    warm_up(assembly, position, world)
    checkpointing.restore_random(start.resume, say)


def _updater(assembly: Assembly, group: Group, world: World, state: RunState) -> Updater:
    return Updater(
        module=assembly.module,
        optimizer=assembly.optimizer,
        scaler=assembly.scaler,
        group=group,
        device=world.device,
        clip_grad_norm=assembly.experiment.train.clip_grad_norm,
        totals=state.totals,
        on_phase=state.position.set_phase,
    )


def _evaluator(assembly: Assembly, setting: Setting, position: Position) -> Evaluator:
    return Evaluator(
        step_module=assembly.step_module,
        readers=assembly.data.evaluation,
        metrics=assembly.metrics,
        group=setting.group,
        device=setting.world.device,
        on_phase=position.set_phase,
        leave=setting.stop.asked,
    )


@contextmanager
def _opened(folder: RunFolder, world: World) -> Iterator[Callable[[Row], None]]:
    """The metric log, on rank 0; elsewhere rows go nowhere."""
    if not world.is_main:
        yield lambda row: None
        return
    with MetricLog(folder.metrics) as log:
        yield log.append
