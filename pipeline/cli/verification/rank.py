"""What one process of a trial does: the real engine on the user's config, with a witness beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from pipeline.api.kinds import Kind
from pipeline.api.period import Period
from pipeline.cli.experiment import bind_experiment
from pipeline.cli.loading import Loaded, load_with_registry
from pipeline.cli.output import say
from pipeline.cli.ranks import RunFailedError, blamed, joined
from pipeline.cli.verification import neutral
from pipeline.cli.verification.conductor import NAME, Conductor
from pipeline.cli.verification.probes.all import probe
from pipeline.cli.verification.trial import EVALUATION_BATCHES, Order, Trial
from pipeline.cli.verification.watched_position import WatchedPosition
from pipeline.cli.verification.witness import Witness
from pipeline.engine.assembly import Assembly
from pipeline.engine.background import Background
from pipeline.engine.checkpoint import Checkpoint, read_checkpoint
from pipeline.engine.dealing import Dealing
from pipeline.engine.experiment import Experiment, Part
from pipeline.engine.failure import Failure
from pipeline.engine.fetch import Reading
from pipeline.engine.group import launcher_store
from pipeline.engine.hook_bus import HookBus
from pipeline.engine.reader import Reader
from pipeline.engine.run_state import RunState
from pipeline.engine.signals import Signals
from pipeline.engine.train import Setting, Start, train
from pipeline.engine.world import World, choose_threads, torch_switches
from pipeline.runs.layout import RunFolder

FAILURE = "failure.json"


def take_part(order: Order) -> int:
    """Do this rank's part of an order, and give the exit status: 1 with ``failure.json`` if it failed."""
    subject = order.subject
    loaded = load_with_registry(subject.config, sets=subject.sets, unsets=subject.unsets)
    plan = loaded.config.plan
    world = World.from_environment(plan.distributed)
    threads, _ = choose_threads(plan.distributed, world.local_world_size)
    if order.trial is not None and order.trial.double:
        torch.set_default_dtype(torch.float64)
    try:
        with torch_switches(threads=threads, deterministic=plan.train.deterministic):
            _work(order, loaded, world)
    except RunFailedError as failed:
        if failed.first:
            _record(Path(order.folder), failed.failure)
        return 1
    return 0


def evidence_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.pt"


def _record(folder: Path, failure: Failure) -> None:
    (folder / FAILURE).write_text(json.dumps(failure.as_dict()))


def _work(order: Order, loaded: Loaded, world: World) -> None:
    plan = loaded.config.plan
    experiment = bind_experiment(plan, loaded.registry, order.subject.seed)
    position, signals = WatchedPosition(), Signals()
    store = launcher_store(plan.distributed.timeout) if world.world_size > 1 else None
    blame = partial(blamed, experiment.parts(), world, position, signals=signals, hidden=loaded.config.hidden)
    with (
        blame(ranks=None),  # the joining itself may fail
        joined(
            plan.distributed,
            world,
            store,
            signals,
            partial(_record, Path(order.folder)),
            position=position,
            parts=experiment.parts(),
            log=say,
        ) as ranks,
        blame(ranks=ranks),
    ):
        if order.trial is None:
            probe(experiment, world, position, evidence_file(Path(order.folder), 0), double=order.double)
            return
        background = Background()
        setting = Setting(
            folder=RunFolder(order.run_folder),
            world=world,
            group=ranks.group,
            stop=ranks.stop,
            signals=signals,
            position=position,
            background=background,
            say=say,
        )
        _train(order, order.trial, experiment, setting, position)


def _train(
    order: Order, trial: Trial, experiment: Experiment, setting: Setting, position: WatchedPosition
) -> None:
    witness = Witness(position, trial.look_after)

    def observe(assembly: Assembly, hooks: HookBus, state: RunState) -> None:
        witness.evidence.devices = _devices(setting.world)
        witness.evidence.samples = _shorten_evaluations(assembly)
        if trial.neutral:
            witness.evidence.neutralised = neutral.neutralise(assembly.step_module)
        if trial.double:
            neutral.take_double(assembly.model, _readings(assembly))
        witness.attach(assembly, hooks, state)

    watched = replace(setting, observe=observe)
    train(_adapted(experiment, trial, setting, order), watched, _start(order, setting))
    witness.finish().write(evidence_file(Path(order.folder), setting.world.rank))


def _adapted(experiment: Experiment, trial: Trial, setting: Setting, order: Order) -> Experiment:
    """The experiment as it is, looked at often; its length stays, since schedulers are told it."""
    often = replace(
        experiment.train,
        evaluate_every=Period(trial.evaluate_every, "step"),
        log_every=Period(1, "step"),
        compile=False,
        precision="fp32" if trial.neutral else experiment.train.precision,
    )
    conductor = Part(
        kind=Kind.HOOK,
        key=f"hooks.{NAME}",
        type=NAME,
        place="",
        build=lambda: Conductor(trial, setting.background, Path(order.folder)),
    )
    return replace(experiment, train=often, hooks={**experiment.hooks, NAME: conductor})


def _readings(assembly: Assembly) -> list[Reading]:
    return [reader.fetcher for reader in (assembly.data.train, *assembly.data.evaluation.values())]


def _devices(world: World) -> int | None:
    return torch.cuda.device_count() if world.device.type == "cuda" else None


def _shorten_evaluations(assembly: Assembly) -> dict[str, tuple[int, int]]:
    """Let evaluations end after a few batches; an iterable dataset is evaluated as a whole."""
    samples = {}
    for name, reader in assembly.data.evaluation.items():
        if isinstance(reader, Reader):
            length, batch = reader.dealing.samples, reader.dealing.global_batch_size
            fewer = min(length, EVALUATION_BATCHES * batch)
            reader.dealing = Dealing(fewer, batch)
            samples[name] = (fewer, length)
    return samples


def _start(order: Order, setting: Setting) -> Start:
    """From the newest checkpoint of the killed trial, read by rank 0 and sent to all, as a run does."""
    if order.resume_from is None or order.trial is None or order.trial.resumes is None:
        return Start()
    name = f"step-{order.trial.resumes.save_after:06d}"
    files = read_checkpoint(RunFolder(Path(order.resume_from)), name) if setting.world.is_main else None
    return Start(resume=Checkpoint.from_files(name, *setting.group.broadcast(files)))
