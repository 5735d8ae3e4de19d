"""One attempt of a run on this rank: from the decision to the record of how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.choice import await_choice, require_same, tell_choice
from pipeline.cli.decision import Decision, decide
from pipeline.cli.experiment import bind_experiment
from pipeline.cli.facts import facts_of
from pipeline.cli.loading import Loaded
from pipeline.cli.logs import rank_log
from pipeline.cli.meeting import Meeting, meet
from pipeline.cli.memory import Agent
from pipeline.cli.ranks import RunFailedError, blamed, joined
from pipeline.cli.records import Placement, finish
from pipeline.cli.sync_batchnorm import require_sync_batchnorm
from pipeline.cli.wish import Wish
from pipeline.engine.background import Background
from pipeline.engine.checkpoint import Checkpoint, read_checkpoint
from pipeline.engine.experiment import Experiment
from pipeline.engine.failure import Failure
from pipeline.engine.group import Group
from pipeline.engine.orphan import Launcher, watched_launcher
from pipeline.engine.position import Position
from pipeline.engine.signals import EarlyStop, Phase, Signals, signal_name
from pipeline.engine.train import Result, Setting, Start, train
from pipeline.engine.world import World, choose_threads, torch_switches
from pipeline.runs.layout import RunFolder
from pipeline.runs.liveness import beating
from pipeline.runs.record import Status

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """How an attempt ended on this rank."""

    folder: RunFolder
    result: Result | None = None
    """None: there was nothing left to do."""
    leads: bool = True
    """Whether this rank speaks for all."""
    store: Store | None = None
    """Where all ranks of the attempt find each other; None where there is one."""


def attempt(loaded: Loaded, wish: Wish, signals: Signals, say: Say) -> Ended:
    """Begin or resume a run and train it; every rank calls it.

    Raises:
        ConfigError, RunError, CheckpointError: before anything is built.
        RunFailedError: from then on, whatever it was; it is in the run's record.
    """
    plan = loaded.config.plan
    here = World.from_environment(plan.distributed)
    require_sync_batchnorm(loaded.config, here)
    meeting = meet(loaded, wish, here, say)
    world, store = meeting.world, meeting.store
    threads, why = choose_threads(plan.distributed, world.local_world_size)
    facts = facts_of(loaded)

    def choose() -> str:
        meeting.require_all()
        require_same(store, world.world_size, facts, plan.distributed.prepare_timeout)
        known = meeting.known_steps
        placement = Placement(world.world_size, threads, world.device_name)
        return decide(loaded, meeting.wish, placement, say, known_steps=known).to_json()

    if world.is_main or store is None:
        text = tell_choice(store, world.world_size, choose)
    else:
        text = await_choice(store, world.rank, facts)
    decision = Decision.from_json(text)
    folder = RunFolder(Path(decision.folder))
    if decision.finished:
        return Ended(folder, leads=world.is_main, store=store)
    position = Position()
    with (
        _early_stop_recorded(folder, world, signals),
        rank_log(folder.log(world.rank), rank=world.rank, position=position, say=say) as log,
        torch_switches(threads=threads, deterministic=plan.train.deterministic),
    ):
        if world.is_main and meeting.memory is not None:
            meeting.memory.begun(folder, world.host)
        experiment = bind_experiment(plan, loaded.registry, decision.seed)
        log(f"{world.world_size} ranks on {world.device.type}, {threads} threads each ({why})")
        result = _run(
            experiment,
            decision,
            folder,
            meeting=meeting,
            position=position,
            signals=signals,
            hidden=loaded.config.hidden,
            log=log,
        )
    return Ended(folder, result, world.is_main, store)


def _run(
    experiment: Experiment,
    decision: Decision,
    folder: RunFolder,
    *,
    meeting: Meeting,
    position: Position,
    signals: Signals,
    hidden: Mapping[str, str],
    log: Say,
) -> Result:
    """Join the other ranks, train, and record the end, whatever it is."""
    world, store = meeting.world, meeting.store
    background = Background()
    blame = partial(blamed, experiment.parts(), world, position, signals=signals, hidden=hidden)
    at = partial(joined, position=position, parts=experiment.parts(), log=log)
    join = partial(at, experiment.distributed, world, store, signals)

    def record(failure: Failure) -> None:
        finish(folder, "failed", steps=failure.step, failure=failure)

    def end_saving() -> None:
        """Before this process is ended; the failure has been told and recorded, and matters more."""
        error = background.wait()
        if error is not None:
            log(f"warning: the checkpoint in progress was not written: {error}")

    try:
        with (
            _alive(folder, world, signals, log) as launcher,
            blame(ranks=None),  # the joining itself may fail
            join(record, end_saving) as ranks,
            blame(ranks=ranks),
        ):
            setting = Setting(folder, world, ranks.group, ranks.stop, signals, position, background, log)
            result = train(experiment, setting, _start(decision, world, ranks.group))
            memory = meeting.memory if world.is_main and not launcher.is_gone else None
            if result.stopped_by_signal and memory is not None:
                memory.stopped(Agent.of_this_process())
    except RunFailedError as failed:
        if world.is_main:
            finish(folder, "failed", steps=position.step, failure=failed.failure)
            end_saving()
        raise
    if world.is_main:
        status: Status = "stopped" if result.stopped_by_signal else "completed"
        finish(folder, status, reason=result.reason, steps=result.step, metrics=result.metrics)
    return result


@contextmanager
def _early_stop_recorded(folder: RunFolder, world: World, signals: Signals) -> Iterator[None]:
    """Let run.json say so where a signal comes inside, which is before the first step."""
    try:
        with signals.undisguised():
            yield
    except EarlyStop as stop:
        signals.phase = Phase.ENDING  # the launcher may pass the same request on in the midst of this
        if world.is_main:
            finish(folder, "stopped", reason=f"{signal_name(stop.number)} before the first step")
        raise


@contextmanager
def _alive(folder: RunFolder, world: World, signals: Signals, log: Say) -> Iterator[Launcher]:
    """Inside, readers on other hosts see that the run goes on, and the launcher's death stops it."""

    def stop() -> None:
        log("the launcher is gone: stopping after a checkpoint")
        signals.ask()

    with watched_launcher(stop) as launcher, beating(folder) if world.is_main else nullcontext():
        yield launcher


def _start(decision: Decision, world: World, group: Group) -> Start:
    """The checkpoint to begin from, read by rank 0 and sent to all: no shared file system is needed."""

    def read(folder: str | None, name: str | None) -> Checkpoint | None:
        if folder is None or name is None:
            return None
        checkpoint = read_checkpoint(RunFolder(Path(folder)), name) if world.is_main else None
        return Checkpoint.from_files(name, *group.broadcast(checkpoint))

    return Start(
        resume=read(decision.folder, decision.checkpoint),
        changed=tuple(decision.changed),
        accepted=tuple(decision.accepted),
        weights=read(decision.parent_folder, decision.parent_checkpoint),
    )
