"""The engine's keys in the tables of components: weights, freeze, groups, interval, monitor, ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.api.settings import GroupSettings, WeightsSettings
from pipeline.config.draft import Draft
from pipeline.config.environment import writable, written_path
from pipeline.config.keys import KeyPath
from pipeline.config.parts import Part, check_options
from pipeline.config.plan import CheckedTable
from pipeline.config.wording import listed, nearest, show

INTERVALS = ("step", "epoch")
RANKS = ("all", "main", "local_main")


@dataclass(frozen=True)
class EngineKeys:
    """All engine's keys of a config, with defaults."""

    weights: WeightsSettings | None
    freeze: tuple[str, ...]
    groups: tuple[GroupSettings, ...]
    interval: str
    monitor: str | None
    ranks: Mapping[str, str]
    plain: Mapping[KeyPath, Mapping[str, Any]]
    """For each component's table, the keys as they are written into config.toml."""


def check_engine_keys(draft: Draft, parts: Mapping[KeyPath, Part]) -> EngineKeys:
    """Check the engine's keys of all parts; problems are reported."""
    reading = _Reading(draft, parts, {})
    model, optimizer, scheduler = (parts.get((section,)) for section in ("model", "optimizer", "scheduler"))
    return EngineKeys(
        weights=reading.weights(model) if model else None,
        freeze=reading.texts(model, "freeze") if model else (),
        groups=reading.groups(optimizer) if optimizer else (),
        interval=reading.choice(scheduler, "interval", INTERVALS) or "step" if scheduler else "step",
        monitor=reading.text(scheduler, "monitor") if scheduler else None,
        ranks=reading.ranks(),
        plain=reading.plain,
    )


@dataclass(frozen=True)
class _Reading:
    draft: Draft
    parts: Mapping[KeyPath, Part]
    plain: dict[KeyPath, dict[str, Any]]

    def text(self, part: Part, key: str) -> str | None:
        value = part.engine.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            self.draft.complain((*part.path, key), f"got {show(value)}", expected="a string")
            return None
        self._note(part, key, value)
        return value

    def texts(self, part: Part, key: str) -> tuple[str, ...]:
        value = part.engine.get(key, [])
        if not _are_texts(value):
            message, expected = f"got {show(value)}", "an array of globs on parameter names"
            self.draft.complain((*part.path, key), message, expected=expected)
            return ()
        if value:
            self._note(part, key, list(value))
        return tuple(value)

    def choice(self, part: Part, key: str, choices: Sequence[str]) -> str | None:
        value = part.engine.get(key, choices[0] if key == "interval" else None)
        if value is None:
            return None
        if value not in choices:
            self.draft.complain(
                (*part.path, key),
                f"got {show(value)}",
                expected=listed(f'"{choice}"' for choice in choices),
                nearest=nearest(value, choices),
            )
            return None
        self.plain.setdefault(part.path, {})[key] = value
        return str(value)

    def ranks(self) -> dict[str, str]:
        ranks = {}
        for path, part in self.parts.items():
            value = self.choice(part, "ranks", RANKS) if path[0] == "hooks" else None
            if value:
                ranks[str(path[1])] = value
        return ranks

    def weights(self, model: Part) -> WeightsSettings | None:
        """``weights``: a path, or a table of a path and globs."""
        value = model.engine.get("weights")
        path: KeyPath = (*model.path, "weights")
        if value is None:
            return None
        table = value if isinstance(value, Mapping) else {"path": value}
        at = (*path, "path") if isinstance(value, Mapping) else path
        for key in table.keys() - {"path", "include"}:
            near = nearest(key, ("path", "include"))
            self.draft.complain((*path, key), "unknown key", expected="path or include", nearest=near)
        file, include = table.get("path"), table.get("include", [])
        if not isinstance(file, str) or not file or "\0" in file:
            message = f"got {show(file)}" if file is not None else "is missing"
            self.draft.complain(at, message, expected="the path of a safetensors file")
            return None
        if not _are_texts(include):
            self.draft.complain(
                (*path, "include"), f"got {show(include)}", expected="an array of globs on parameter names"
            )
            return None
        written: Any = written_path(self.draft, at)
        if at != path:
            globs = {"include": list(include)} if include else {}
            written = {"path": written, **writable(self.draft, path, CheckedTable(globs, globs))}
        self.plain.setdefault(model.path, {})["weights"] = written
        absolute = str(self.draft.merged.origin(at).folder / file)
        return WeightsSettings(path=absolute, include=tuple(include))

    def groups(self, optimizer: Part) -> tuple[GroupSettings, ...]:
        """``[[optimizer.groups]]``: globs, and options that the optimizer takes."""
        value = optimizer.engine.get("groups", [])
        path = (*optimizer.path, "groups")
        if not isinstance(value, list) or not all(isinstance(group, Mapping) for group in value):
            self.draft.complain(
                path, f"got {show(value)}", expected="an array of tables [[optimizer.groups]]"
            )
            return ()
        groups, plain = [], []
        for number, table in enumerate(value):
            globs = self._globs((*path, number), table)
            given = {key: option for key, option in table.items() if key != "params"}
            checked = check_options(self.draft, optimizer, (*path, number), given)
            groups.append(GroupSettings(params=globs, options=dict(checked.arguments)))
            whole = replace(
                checked,
                arguments={"params": globs, **checked.arguments},
                plain={"params": list(globs), **checked.plain},
            )
            plain.append(writable(self.draft, (*path, number), whole))
        if plain:
            self.plain.setdefault(optimizer.path, {})["groups"] = plain
        return tuple(groups)

    def _globs(self, path: KeyPath, table: Mapping[str, Any]) -> tuple[str, ...]:
        globs = table.get("params")
        if globs is None:
            self.draft.complain(
                (*path, "params"), "is missing", expected="an array of globs on parameter names"
            )
        elif not _are_texts(globs) or not globs:
            self.draft.complain(
                (*path, "params"), f"got {show(globs)}", expected="an array of globs on parameter names"
            )
        else:
            return tuple(globs)
        return ()

    def _note(self, part: Part, key: str, value: Any) -> None:
        written = writable(self.draft, part.path, CheckedTable({key: value}, {key: value}))
        self.plain.setdefault(part.path, {}).update(written)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)
