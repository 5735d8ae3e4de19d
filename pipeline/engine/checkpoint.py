"""What a checkpoint holds, how it is gathered from all ranks, and how it is put back."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.api.settings import LENGTH_KEYS
from pipeline.engine import random_state, weights
from pipeline.engine.assembly import Assembly
from pipeline.engine.buffers import equal_buffers, load_buffers
from pipeline.engine.group import Group
from pipeline.engine.hook_bus import HookBus
from pipeline.engine.optimizer import load_optimizer
from pipeline.engine.pickled import foreign_objects
from pipeline.engine.plain_state import plain_copy
from pipeline.engine.run_state import RunState, Stop
from pipeline.engine.share import Saved
from pipeline.engine.snapshot import FORMAT, MODEL_FILE, STATE_FILE, Snapshot
from pipeline.engine.step_module import StepModule
from pipeline.engine.view import Requests
from pipeline.engine.world import World
from pipeline.errors import CheckpointError
from pipeline.runs.checkpoints import Checkpoints
from pipeline.runs.layout import RunFolder


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's content, read and on the CPU."""

    name: str
    model: Mapping[str, Tensor]
    state: Mapping[str, Any]

    @classmethod
    def from_files(cls, name: str, model: bytes, state: bytes) -> Checkpoint:
        """Read the two files' bytes; nothing is unpickled but tensors and plain data.

        Raises:
            CheckpointError: if one is unsound, holds other objects, or has another format.
        """
        try:
            loaded = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
        except Exception as error:
            raise CheckpointError(f"{name}/{STATE_FILE} {_refusal(state, error)}") from error
        if not isinstance(loaded, dict) or loaded.get("format") != FORMAT:
            raise CheckpointError(f"{name}/{STATE_FILE} is of another format than {FORMAT}")
        _require_every_rank(name, loaded)
        return cls(name, weights.from_bytes(model, f"{name}/{MODEL_FILE}"), loaded)

    @property
    def reading(self) -> Saved:
        """How far the training data had been read."""
        state = self.state
        by_rank = [rank["data"] for rank in state["ranks"]]
        return Saved(self.name, state["position"], state["global_batch_size"], by_rank)


def _refusal(state: bytes, error: Exception) -> str:
    """What to say instead of torch's own message, which ends with how to load the file all the same."""
    names = foreign_objects(state)
    if not names:
        return f"cannot be read: {str(error).partition(chr(10))[0]}"
    return (
        f"holds {', '.join(names)}: it is not loaded, since that would run code; this package writes "
        "tensors and plain data only, so the file was changed by someone"
    )


def _require_every_rank(name: str, state: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that lost a rank's part: going on would silently draw other random numbers."""
    parts = state["ranks"]
    lost = [rank for rank in range(state.get("world_size", len(parts))) if rank >= len(parts)]
    lost += [rank for rank, part in enumerate(parts) if "random" not in part]
    if lost:
        raise CheckpointError(
            f"{name}/{STATE_FILE} has no random states of rank {', '.join(map(str, lost))}: what it draws "
            "(dropout, augmentation) would not go on as it was; resume from another checkpoint"
        )


@dataclass
class Checkpointing:
    """The run's state as a whole: all that a resumed run needs."""

    assembly: Assembly
    hooks: HookBus
    run: RunState
    group: Group
    world: World

    def snapshot(self) -> Snapshot | None:
        """All of the run's state at this moment, on rank 0; all ranks must call it together.

        Raises:
            CheckpointError: if a state is not plain data, or the format cannot hold it.
        """
        assembly = self.assembly
        rule = assembly.experiment.distributed.buffers
        with equal_buffers(assembly.step_module, self.group, rule) as own_buffers:
            own = self._rank_state(own_buffers)
            by_rank = self.group.gather(None if self.world.is_main else own)
            if not self.world.is_main:
                return None
            by_rank[0] = own  # which need not travel, and may be much larger than the others'
            with self._asking("model"):
                model, extra = weights.copied(assembly.model), weights.copied_extra(assembly.model)
            with self._asking("objective"):
                objective = plain_copy(_state_of(assembly.step_module.objective), "the objective")
            with self._asking("optimizer"):
                optimizer = plain_copy(assembly.optimizer.state_dict(), "the optimizer")
            with self._asking("scheduler"):
                scheduler = plain_copy(assembly.schedule.state_dict(), "the scheduler")
            state = {
                "format": FORMAT,
                "position": self.run.position.state_dict(),
                "global_batch_size": assembly.experiment.train.global_batch_size,
                "world_size": self.group.world_size,
                "model_extra": extra,
                "objective": objective,
                "optimizer": optimizer,
                "scheduler": scheduler,
                "lengths": dict(assembly.schedule.lengths),
                "scaler": plain_copy(assembly.scaler.state_dict() if assembly.scaler else {}, "the scaler"),
                "metrics": dict(self.run.metrics),
                "metrics_steps": dict(self.run.metrics_steps),
                "unfinished": self.run.unfinished,
                "stop": _plain(self.run.stop),
                "ranks": by_rank,
            }
            return Snapshot(model, state)

    @contextmanager
    def _asking(self, component: str) -> Iterator[None]:
        """A component says what its state is, and is to blame if it cannot."""
        self.run.position.set_phase(component)
        yield
        self.run.position.set_phase("saving a checkpoint")

    def restore(
        self,
        checkpoint: Checkpoint,
        changed: Collection[str],
        accepted: Collection[str],
        say: Callable[[str], None],
    ) -> None:
        """Put a checkpoint back on this rank, all but its position and random states (``restore_random``).

        Args:
            changed: config keys with other values than when the checkpoint was written.
            accepted: those whose new values count, although the checkpoint has others.

        Raises:
            CheckpointError: naming what does not fit.
        """
        assembly, state = self.assembly, checkpoint.state
        restore_modules(assembly.step_module, checkpoint)
        try:
            load_optimizer(assembly.optimizer, dict(state["optimizer"]), accepted)
        except (ValueError, KeyError) as error:
            raise CheckpointError(f"{checkpoint.name} does not fit the optimizer: {error}") from error
        assembly.schedule.load_state_dict(
            dict(state["scheduler"]), assembly.optimizer, accepted, lengths=state["lengths"]
        )
        if assembly.scaler is not None and state["scaler"]:
            assembly.scaler.load_state_dict(dict(state["scaler"]))
        self.run.stop = _still_stopped(state["stop"], changed)
        self.run.unfinished = state.get("unfinished", False)
        self.run.metrics.update(state["metrics"])
        self.run.metrics_steps.update(state["metrics_steps"])
        self._restore_rank(checkpoint, changed, say)

    def _rank_state(self, own_buffers: list[Tensor]) -> dict[str, Any]:
        """What this rank alone knows, copied."""
        states = self.hooks.state_dicts(self.world)
        self.run.position.set_phase("saving a checkpoint")
        return {
            "random": random_state.capture(),
            "data": plain_copy(self.assembly.data.train.state_dict(), "dataset.train"),
            "totals": self.run.totals.state_dict(),
            "averaged": {
                name: [float(total), count] for name, (total, count) in self.run.logged.averaged.items()
            },
            "recorded": {name: float(value) for name, value in self.run.logged.recorded.items()},
            "buffers": [buffer.cpu() for buffer in own_buffers],
            "hooks": {name: plain_copy(state, f"hooks.{name}") for name, state in states.items()},
            "wishes": [_plain(self.hooks.later.stop), self.hooks.later.checkpoint],
        }

    def _restore_rank(
        self, checkpoint: Checkpoint, changed: Collection[str], say: Callable[[str], None]
    ) -> None:
        """Put back this rank's own part, or with another number of ranks what can be derived of it."""
        ranks = checkpoint.state["ranks"]
        same = len(ranks) == self.group.world_size
        own = ranks[self.world.rank if same else 0]
        if same:
            self.run.totals.load_state_dict(own["totals"])
            if own["buffers"]:
                load_buffers(list(self.assembly.step_module.buffers()), own["buffers"])
        elif self.world.is_main:  # the sums of all ranks, once
            self.run.totals.load_state_dict(torch.stack([rank["totals"] for rank in ranks]).sum(0))
        counted = [own] if same else ranks if self.world.is_main else []
        self.run.logged.averaged.update(_added_up(own["averaged"], [part["averaged"] for part in counted]))
        self.run.logged.recorded.update(own["recorded"])
        for part in counted:
            stop, save = part["wishes"]
            self.hooks.later.merge(Requests(_still_stopped(stop, changed), save))
        missing = self.hooks.load_state_dicts(own["hooks"], self.world)
        self.run.position.set_phase("restoring a checkpoint")
        if missing:
            say(f"{checkpoint.name} has no state of {', '.join(missing)}; these hooks start anew")

    def restore_random(self, checkpoint: Checkpoint, say: Callable[[str], None]) -> None:
        """Put back what the warm-up has moved: extra state, and this rank's random states.

        With another number of ranks the random states are derived anew.
        """
        self.assembly.model.load_state_dict(checkpoint.state.get("model_extra", {}), strict=False)
        ranks = checkpoint.state["ranks"]
        if len(ranks) == self.group.world_size:
            random_state.restore(ranks[self.world.rank]["random"])
            return
        say(
            f"{checkpoint.name} was written by {len(ranks)} ranks and is resumed by {self.group.world_size}: "
            "the order of samples goes on unchanged, the random states (dropout) are derived anew"
        )
        seed_training(self.assembly, self.world, self.run.position.step)


def _plain(stop: Stop | None) -> list[str] | None:
    return [stop.reason, stop.hook] if stop is not None else None


def _still_stopped(saved: Sequence[str] | None, changed: Collection[str]) -> Stop | None:
    """What a hook had asked for; made longer, or with that hook changed, the run is meant to go on."""
    if saved is None or not LENGTH_KEYS.isdisjoint(changed):
        return None
    stop = Stop(*saved)
    concerned = any(key == stop.hook or key.startswith(f"{stop.hook}.") for key in changed)
    return None if concerned else stop


def _added_up(
    names: Collection[str], parts: Sequence[Mapping[str, Sequence[Any]]]
) -> dict[str, tuple[float, int]]:
    """The sums and counts of all parts under every name, which all ranks must have in one order."""
    pairs = {name: [part[name] for part in parts if name in part] for name in names}
    return {
        name: (sum(pair[0] for pair in all_), sum(pair[1] for pair in all_)) for name, all_ in pairs.items()
    }


def seed_training(assembly: Assembly, world: World, step: int) -> None:
    """Seed the training streams: another one on every rank, unless the config wants them equal."""
    rank = 0 if assembly.experiment.train.same_rank_seeds else world.rank
    random_state.seed_all(assembly.experiment.seed, "train", rank, step)


def restore_modules(step_module: StepModule, checkpoint: Checkpoint) -> None:
    """Put back the model, and the objective where it is a module.

    Raises:
        CheckpointError: naming what does not fit.
    """
    extra = checkpoint.state.get("model_extra", {})
    weights.load_strictly(step_module.model, checkpoint.model, checkpoint.name, extra=extra)
    if isinstance(step_module.objective, nn.Module):
        origin = f"{checkpoint.name}: objective"
        state = checkpoint.state["objective"]
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        extra = {name: value for name, value in state.items() if name not in tensors}
        weights.load_strictly(step_module.objective, tensors, origin, extra=extra)


def _state_of(objective: Any) -> dict[str, Any]:
    return dict(objective.state_dict()) if isinstance(objective, nn.Module) else {}


def read_checkpoint(folder: RunFolder, name: str) -> tuple[bytes, bytes]:
    """The bytes of a checkpoint's two files, after they were checked against the manifest.

    Raises:
        CheckpointError: if there is no such checkpoint, or it is not as it was written.
    """
    store = Checkpoints(folder.checkpoints)
    problems = store.verify(name)
    if problems:
        raise CheckpointError("\n".join(problems))
    path = store.resolve(name).path
    return (path / MODEL_FILE).read_bytes(), (path / STATE_FILE).read_bytes()
