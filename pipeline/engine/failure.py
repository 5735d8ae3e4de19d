"""Who failed: what is known of the first failure of a run, and how it is shown."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.engine.error_text import text_of
from pipeline.engine.experiment import Part
from pipeline.engine.position import Position
from pipeline.engine.pulse import Sign
from pipeline.engine.reader import Reader
from pipeline.engine.step_module import StepModule
from pipeline.engine.worker import told_by_worker
from pipeline.engine.world import World
from pipeline.errors import PipelineError

_BROKEN = re.compile(r"gloo|NCCL|TCPStore|[Cc]onnection (closed|reset|refused)|[Bb]roken pipe")


@dataclass(frozen=True)
class Failure:
    """The first failure of a run."""

    rank: int
    host: str
    step: int
    """Optimizer steps done when it happened."""
    epoch: int
    component: str
    """The key of the component at work, as ``hooks.ema``; empty: the engine itself was."""
    place: str
    """The config line that names the component, as ``pipeline.toml:40:1``."""
    activity: str
    """What was at work, in words."""
    type: str
    message: str
    traceback: str
    explained: bool = False
    """The error is one that this package raises on purpose: its message says all, to people at least."""

    @classmethod
    def of(cls, error: BaseException, world: World, position: Position, parts: Iterable[Part]) -> Failure:
        """Describe an error of this rank; the position says what was at work."""
        part = _blamed(error, position.phase, parts)
        return cls(
            rank=world.rank,
            host=world.host,
            step=position.step,
            epoch=position.epoch,
            component=part.key if part else "",
            place=part.place if part else "",
            activity=str(part) if part else position.phase,
            type=type(error).__name__,
            message=text_of(error),
            traceback="".join(traceback.format_exception(error)),
            explained=isinstance(error, PipelineError) and told_by_worker(text_of(error)) is None,
        )

    @classmethod
    def of_lost(cls, sign: Sign, how: str, position: Position, parts: Iterable[Part]) -> Failure:
        """Describe in its place a rank that can say nothing more; ours is the newer position."""
        part = {part.key: part for part in parts}.get(sign.phase)
        return cls(
            rank=sign.rank,
            host=sign.host,
            step=max(sign.step, position.step),
            epoch=max(sign.epoch, position.epoch),
            component=part.key if part else "",
            place=part.place if part else "",
            activity=str(part) if part else sign.phase,
            type="RankLost",
            message=f"{how}; if nobody killed it, look for the system's out-of-memory killer (dmesg)",
            traceback="",
            explained=True,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Failure:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """The report: the traceback, then who and where, last, since the end is what people see."""
        head = "" if self.explained else f"{self.traceback.rstrip()}\n"
        message = self.message if self.explained else self.message.partition("\n")[0]
        what = told_by_worker(self.message) or (f"{self.type}: {message}" if message else self.type)
        return (
            f"{head}rank {self.rank} on {self.host} failed in {self.activity}, "
            f"epoch {self.epoch}, after step {self.step}: {what}"
        )


def is_aftermath(error: BaseException) -> bool:
    """Whether a collective has failed for the sake of another rank, which may be the one to blame."""
    return isinstance(error, RuntimeError) and bool(_BROKEN.search(text_of(error)))


def _blamed(error: BaseException, phase: str, parts: Iterable[Part]) -> Part | None:
    """The component at work: by the phase, or where the error came through another's code, that one."""
    owners = list(_owners(error))
    if phase == "objective" and _came_through(owners, StepModule, "model"):
        phase = "model"
    if phase == "dataset.train" and _came_through(owners, Reader, "order"):
        phase = "sampler"
    if phase == "backward" and not is_aftermath(error):
        phase = "model"
    return {part.key: part for part in parts}.get(phase)


def _owners(error: BaseException | None) -> Iterator[object]:
    """Whose methods the error came through, and those that caused it (a StopIteration in a generator)."""
    while error is not None:
        yield from (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__))
        error = error.__cause__


def _came_through(owners: Sequence[object], kind: type, component: str) -> bool:
    """Whether a method of ``kind`` was on the way, and then one of the component that it holds."""
    holder = next((owner for owner in owners if isinstance(owner, kind)), None)
    return holder is not None and any(owner is getattr(holder, component) for owner in owners)
