"""What a config tells about the run it would be: from the config itself, and from a step by shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.cli.loading import Loaded
from pipeline.cli.monitor import Monitor, monitor_of
from pipeline.cli.pointing import pointed
from pipeline.config.config import Config
from pipeline.config.plan import ComponentPlan, Plan
from pipeline.engine.dealing import share_size
from pipeline.errors import ConfigError
from pipeline.registry.nested import nested_plans
from pipeline.registry.provenance import Provenance

if TYPE_CHECKING:
    from pipeline.engine.rehearsal import Rehearsal


@dataclass(frozen=True)
class Batches:
    """How one full global batch is dealt to the ranks."""

    global_batch_size: int
    shares: tuple[int, ...]
    """Samples of each rank."""
    microbatches: tuple[int, ...]
    """Forward passes of each rank."""
    eval_batch_size: int
    """Samples of one evaluation batch, over all ranks."""


@dataclass(frozen=True)
class HookLine:
    """A hook of the run."""

    name: str
    type: str
    ranks: str | None
    """Where the config says so; None: as the hook itself declares."""


@dataclass(frozen=True)
class CheckpointNumbers:
    """The checkpoints of the whole run."""

    written: int
    kept: int
    """At most, at its end."""
    bytes_each: int | None
    """Without what hooks keep in it; None where it is not known."""
    disk: int | None
    """The most bytes at once: those that are kept, and the next one while it is written."""


@dataclass(frozen=True)
class Report:
    """What ``check`` has found out."""

    config: Config
    world_size: int
    components: tuple[Provenance, ...]
    """Of every component, nested ones too, in the order in which they are built."""
    batches: Batches
    hooks: tuple[HookLine, ...]
    """In the order in which they are called."""
    monitor: Monitor | None
    limits: tuple[str, ...] = field(default=())
    """Why the result may depend on the number of ranks."""
    warnings: tuple[str, ...] = field(default=())
    rehearsal: Rehearsal | None = None
    """What a step by shapes has told."""
    checkpoints: CheckpointNumbers | None = None
    """None where the length of the run is not known."""


def examine(loaded: Loaded, world_size: int) -> Report:
    """Look at a valid config as a run of ``world_size`` ranks, and rehearse a step of it by shapes.

    Datasets are built, unless they declare their shapes; nothing else is allocated.

    Raises:
        ConfigError: with all that would fail.
    """
    from pipeline.cli.experiment import bind_experiment
    from pipeline.cli.sync_batchnorm import sync_batchnorm_problems
    from pipeline.engine.rehearsal import rehearse

    plan, registry = loaded.config.plan, loaded.registry
    declarations = {
        name: declared for name, part in plan.datasets.items() if (declared := registry.declaration(part))
    }
    experiment = bind_experiment(plan, registry, plan.seed or 0)
    rehearsal = rehearse(experiment, world_size, declarations)
    windows = [plan.train.global_batch_size, *filter(None, [rehearsal.last_batch])]
    problems = [*rehearsal.problems, *sync_batchnorm_problems(loaded.config, world_size, windows)]
    if problems:
        raise ConfigError([pointed(problem, loaded.config.places) for problem in problems])
    limits = tuple(_limits(plan))
    return Report(
        config=loaded.config,
        world_size=world_size,
        components=tuple(row for part in plan.parts() for row in loaded.registry.provenance(part)),
        batches=_batches(plan, world_size),
        hooks=tuple(
            HookLine(name, hook.type, plan.hook_ranks.get(name)) for name, hook in plan.hooks.items()
        ),
        monitor=monitor_of(plan),
        limits=(*limits, *_seen_limits(rehearsal, limits)),
        warnings=(
            *registry.warnings,
            *loaded.config.warnings,
            *_warnings(plan, world_size),
            *_unused(rehearsal),
        ),
        rehearsal=rehearsal,
        checkpoints=_checkpoints(plan, rehearsal),
    )


def _batches(plan: Plan, world_size: int) -> Batches:
    size = plan.train.global_batch_size
    shares = tuple(share_size(size, rank, world_size) for rank in range(world_size))
    most = plan.train.max_microbatch_size or size
    return Batches(
        global_batch_size=size,
        shares=shares,
        microbatches=tuple(-(-share // most) for share in shares),
        eval_batch_size=plan.train.eval_batch_size or size,
    )


def _checkpoints(plan: Plan, rehearsal: Rehearsal) -> CheckpointNumbers | None:
    """Of the checkpoint hook; a run writes its last step too, and without the hook none of itself."""
    total, per_epoch = rehearsal.total_steps, rehearsal.steps_per_epoch
    if total is None or per_epoch is None:
        return None
    for hook in plan.hooks.values():
        if hook.type.rpartition("/")[2] == "checkpoint":
            every, of = hook.arguments["every"], hook.arguments
            steps = every.count * (per_epoch if every.unit == "epoch" else 1)
            written = -(-total // steps) if steps else 1
            best = max(1, of["keep_best"]) if of.get("monitor") else 0
            kept = min(written, of["keep_last"] + best)
            each = rehearsal.checkpoint
            return CheckpointNumbers(written, kept, each, None if each is None else each * (kept + 1))
    return CheckpointNumbers(0, 0, rehearsal.checkpoint, 0)


def _seen_limits(rehearsal: Rehearsal, told: tuple[str, ...]) -> Iterator[str]:
    """What the shapes tell besides: a dropout that the config names is not told twice."""
    by_config = any("dropout" in limit for limit in told)
    for limit in rehearsal.limits:
        if not (by_config and "draws random numbers" in limit):
            yield limit


def _unused(rehearsal: Rehearsal) -> Iterator[str]:
    if rehearsal.unused:
        yield (
            f"the loss does not depend on {', '.join(rehearsal.unused)}: they are never trained, and several "
            "ranks refuse them unless distributed.find_unused_parameters = true"
        )


def _limits(plan: Plan) -> Iterator[str]:
    for part in (plan.model, plan.objective):
        for key, value in _dropouts(part):
            yield f"{key} = {value}: ranks draw different dropout masks, so training depends on their number"
    if plan.train.precision != "fp32":
        yield f"train.precision = {plan.train.precision!r}: results agree up to the rounding of that type"
    if plan.loader.sample_seeds is False:
        yield "loader.sample_seeds = false: a dataset that draws random numbers depends on ranks and workers"
    if plan.distributed.buffers == "mean":
        yield "distributed.buffers = 'mean': statistics that a model keeps are the mean over the ranks"


def _dropouts(part: ComponentPlan, prefix: str = "") -> Iterator[tuple[str, float]]:
    """The arguments that are called dropout and are not 0, of a component and those nested in it."""
    key = prefix or part.key
    for name, value in part.arguments.items():
        for inner in nested_plans(value):
            yield from _dropouts(inner, f"{key}.{inner.key}")
        if "dropout" in name and isinstance(value, int | float) and value > 0:
            yield f"{key}.{name}", value


def _warnings(plan: Plan, world_size: int) -> Iterator[str]:
    for key, size in (
        ("global_batch_size", plan.train.global_batch_size),
        ("eval_batch_size", plan.train.eval_batch_size or plan.train.global_batch_size),
    ):
        if size < world_size:
            idle = world_size - size
            yield f"train.{key} = {size}: of {world_size} ranks, {idle} get no sample of any batch"
