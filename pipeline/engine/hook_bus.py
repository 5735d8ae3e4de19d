"""Calling the hooks: in the file's order, only where they are due, only methods that a class overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from pipeline.api.hook import EVENTS, CheckpointPolicy, Hook, Ranks
from pipeline.engine import random_state
from pipeline.engine.error_text import text_of
from pipeline.engine.group import Group
from pipeline.engine.view import Requests, RunFacts, RunView
from pipeline.engine.world import World
from pipeline.errors import ComponentError


@dataclass(frozen=True)
class BoundHook:
    """A hook with its name and where it runs."""

    name: str
    hook: Hook
    ranks: Ranks

    @property
    def key(self) -> str:
        return f"hooks.{self.name}"

    @property
    def gated(self) -> bool:
        return self.ranks != "all"

    def runs_on(self, world: World) -> bool:
        return self.ranks == "all" or (world.is_main if self.ranks == "main" else world.is_local_main)

    def overrides(self, event: str) -> bool:
        return getattr(type(self.hook), event) is not getattr(Hook, event)


@dataclass(frozen=True)
class _Call:
    """A hook's method that is due on this rank, with all that a call needs: some come every step."""

    key: str
    gated: bool
    method: Callable[..., None]
    view: RunView


@dataclass
class HookBus:
    """All hooks of the run.

    The calls of every event are bound once, so that an event that no hook wants costs one look-up.
    """

    hooks: tuple[BoundHook, ...]
    on_phase: Callable[[str], None]
    without_collectives: Callable[[str], AbstractContextManager[None]]
    """Surrounds what does not run on all ranks (``Group.without_collectives``)."""
    now: Requests = field(default_factory=Requests)
    """Asked by hooks of all ranks: equal everywhere, acted on at the end of the event."""
    later: Requests = field(default_factory=Requests)
    """Asked by gated hooks: the ranks must agree first."""
    _calls: dict[str, list[_Call]] = field(default_factory=dict)
    _asking_events: frozenset[str] = frozenset()
    """Events in which some rank calls a hook; the same on all ranks."""
    _called: set[str] = field(default_factory=set)
    """Events since the ranks last agreed."""
    _logging_events: frozenset[str] = frozenset()
    """Events in which a hook of all ranks is called."""
    _unlogged: bool = True
    """Whether one was called since the last row; a resumed run begins with what was logged before."""

    def bind(self, facts: RunFacts) -> None:
        """Prepare this rank's calls."""
        views = {
            bound.name: RunView(
                facts, self.later if bound.gated else self.now, key=bound.key, gated=bound.gated
            )
            for bound in self.hooks
        }
        for event in EVENTS:
            wanted = [bound for bound in self.hooks if bound.overrides(event)]
            self._calls[event] = [
                _Call(bound.key, bound.gated, getattr(bound.hook, event), views[bound.name])
                for bound in wanted
                if bound.runs_on(facts.world)
            ]
            if wanted:
                self._asking_events |= {event}
            if not all(bound.gated for bound in wanted):
                self._logging_events |= {event}

    def call(self, event: str, *arguments: Any) -> None:
        """Call ``event`` on every hook that is due on this rank."""
        self._called.add(event)
        self._unlogged = self._unlogged or event in self._logging_events
        for due in self._calls[event]:
            self.on_phase(due.key)
            if due.gated:
                with self.without_collectives(f"{due.key}.{event}"):
                    due.method(due.view, *arguments)
            else:  # at every step, without the cost of a context
                due.method(due.view, *arguments)

    def may_have_logged(self) -> bool:
        """Whether a hook of all ranks may have logged something since this was last asked, on any rank."""
        unlogged, self._unlogged = self._unlogged, False
        return unlogged

    def begin(self, group: Group) -> Requests:
        """Call ``on_run_start`` and agree on what is asked in it; all ranks call it together.

        What was asked before a resume waits for its log point, as it does in an uninterrupted run. The
        training streams stay where they are: what hooks draw here would come once an attempt.
        """
        restored = Requests(self.later.stop, self.later.checkpoint)
        self.later.clear()
        with random_state.preserved():
            self.call("on_run_start")
        asked = self.agree(group) if self.may_have_asked() else Requests()
        self.later.merge(restored)
        return asked

    def may_have_asked(self) -> bool:
        """Whether a hook may have asked for something since the last agreement, on any rank."""
        return not self._asking_events.isdisjoint(self._called)

    def agree(self, group: Group) -> Requests:
        """What hooks of any rank have asked for; all ranks call it together."""
        self._called.clear()
        self.on_phase("agreeing on what hooks ask for")
        agreed = Requests()
        mine = Requests(self.now.stop, self.now.checkpoint)
        mine.merge(self.later)
        anything = mine.stop is not None or mine.checkpoint is not None
        flags = group.all_gather(torch.tensor([anything], dtype=torch.uint8))
        if any(flag.item() for flag in flags):
            for wishes in group.all_gather_objects(mine):
                agreed.merge(wishes)
            self.later.clear()
            self.now.clear()
        return agreed

    def report(self, error: BaseException) -> None:
        """Call ``on_exception``; what fails in there becomes a note on the error that is on its way."""
        for due in self._calls["on_exception"]:
            key = f"{due.key}.on_exception"
            try:
                with self.without_collectives(key):  # which runs on this rank alone, wherever the hook does
                    due.method(due.view, error)
            except BaseException as second:  # noqa: BLE001  (reported as a note)
                said = f"{type(second).__name__}: {text_of(second)}"
                BaseException.add_note(error, f"{key} failed too: {said}")

    @property
    def checkpoint_policy(self) -> CheckpointPolicy | None:
        """When to write checkpoints, by the one hook that says so.

        Raises:
            ComponentError: if several hooks do.
        """
        policies = {
            bound.name: bound.hook.checkpoint_policy for bound in self.hooks if bound.hook.checkpoint_policy
        }
        if len(policies) > 1:
            raise ComponentError(
                f"only one hook may decide when checkpoints are written, but {', '.join(policies)} do"
            )
        return next(iter(policies.values()), None)

    @property
    def guards_loss(self) -> str | None:
        """The name of the first hook that requires a finite training loss."""
        return next((bound.name for bound in self.hooks if bound.hook.requires_finite_loss), None)

    def state_dicts(self, world: World) -> dict[str, Any]:
        """The state of every hook that runs on this rank, by name."""
        states = {}
        for bound in self.hooks:
            if bound.runs_on(world):
                self.on_phase(bound.key)
                with self._gate(bound, "state_dict"):
                    states[bound.name] = bound.hook.state_dict()
        return states

    def load_state_dicts(self, states: Mapping[str, Any], world: World) -> list[str]:
        """Give back states; returns the names of hooks here that have none in ``states``."""
        missing = []
        for bound in self.hooks:
            if not bound.runs_on(world):
                continue
            if bound.name in states:
                self.on_phase(bound.key)
                with self._gate(bound, "load_state_dict"):
                    bound.hook.load_state_dict(states[bound.name])
            elif bound.overrides("state_dict"):
                missing.append(bound.name)
        return missing

    def _gate(self, bound: BoundHook, method: str) -> AbstractContextManager[None]:
        return self.without_collectives(f"{bound.key}.{method}") if bound.gated else nullcontext()
