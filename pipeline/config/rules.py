"""Rules that hold between the tables of a config."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pipeline.api.period import Period
from pipeline.config.draft import Draft
from pipeline.config.homes import with_home
from pipeline.config.keys import KeyPath, find, walk
from pipeline.config.outline import TOP_LEVEL
from pipeline.config.parts import Part, named
from pipeline.config.plan import Fault
from pipeline.config.wording import listed, nearest, show

LENGTH = "exactly one of train.epochs and train.steps"


def check_top_level(draft: Draft) -> None:
    """Every top-level key is known; [vars] is a table."""
    for key in draft.tree:
        if key not in TOP_LEVEL:
            near = nearest(key, TOP_LEVEL)
            fault = Fault((key,), "unknown key", "" if near else listed(TOP_LEVEL), near, is_unknown_key=True)
            draft.complain_of_fault((), with_home(draft.homes, (), fault))
    draft.table(("vars",))


def check_length(draft: Draft) -> None:
    """A run's length is said exactly once."""
    train = draft.table(("train",))
    said = [key for key in ("epochs", "steps") if key in (train or {}) or draft.is_broken(("train", key))]
    if train is None and not draft.is_broken(("train",)) and "train" not in draft.tree:
        draft.complain(("train",), "is missing", expected=f"[train] with global_batch_size and {LENGTH}")
    elif train is not None and not said:
        draft.complain(("train",), "does not say how long to train", expected=LENGTH)
    elif len(said) == 2:
        places = [(draft.place(("train", key)), key) for key in said]
        later = max(places, key=lambda found: (found[0].line, found[1]))[1]
        draft.complain(("train", later), "epochs and steps are both set", expected=LENGTH)


def check_evaluation(draft: Draft, parts: Mapping[KeyPath, Part], settings: Mapping[str, Any]) -> None:
    """``evaluate_every`` was set only where there is something to evaluate."""
    path = ("train", "evaluate_every")
    every = settings.get("evaluate_every")
    is_set = path in draft.merged.origins and isinstance(every, Period) and every.count > 0
    if is_set and not evaluated(parts) and not draft.is_broken(("dataset",)):
        message = f"got {show(str(every))}, but no dataset is evaluated"
        draft.complain(path, message, expected='a table [dataset.NAME] beside [dataset.train], or "never"')
    elif is_set and not _ever_evaluates(settings):
        draft.warn(f"train.evaluate_every: the run ends before {every} are over, so nothing is evaluated")


def _ever_evaluates(settings: Mapping[str, Any]) -> bool:
    """Whether a run of this length comes to an evaluation, as far as the config tells."""
    every = settings.get("evaluate_every")
    if not isinstance(every, Period):  # at fault itself
        return True
    length = settings.get("epochs" if every.unit == "epoch" else "steps")
    return every.count > 0 and not (isinstance(length, int) and length < every.count)


def check_monitors(draft: Draft, parts: Mapping[KeyPath, Part], settings: Mapping[str, Any]) -> None:
    """What a component declares to be a measured value, and the scheduler's monitor, is one of this run."""
    at_evaluation = evaluation_names(parts)
    clipped = ("grad_norm",) if settings.get("clip_grad_norm") is not None else ()
    names = (*at_evaluation, "train/loss", "lr", *clipped)
    never = () if _ever_evaluates(settings) else at_evaluation
    for path in (path for part in parts.values() for path in part.measured):
        for place, monitor in ((path, find(draft.tree, path)), *walk(find(draft.tree, path), path)):
            _check_monitor(draft, place, monitor, names, never)
    path = ("scheduler", "monitor")
    if path[:1] in parts:
        _check_monitor(draft, path, find(draft.tree, path), at_evaluation, never, when=" at evaluation")


def _check_monitor(
    draft: Draft,
    path: KeyPath,
    monitor: object,
    known: Collection[str],
    never: Collection[str],
    when: str = "",
) -> None:
    if not isinstance(monitor, str):
        return
    if monitor in never:
        message = f"{show(monitor)} is never measured, as the run ends before its first evaluation"
        draft.complain(path, message, expected="a shorter train.evaluate_every")
    elif monitor not in known:
        near = nearest(monitor, known)
        message = f"{show(monitor)} is not measured{when}"
        draft.complain(path, message, expected="" if near else _one_of(known), nearest=near)


def _one_of(names: Collection[str]) -> str:
    return f"one of {', '.join(names)}" if names else "a table [dataset.NAME] beside [dataset.train]"


def check_metrics(draft: Draft, parts: Mapping[KeyPath, Part]) -> None:
    """No metric takes the name under which the objective's loss is written."""
    if ("metrics", "loss") in parts:
        message = "the name is reserved for the objective's loss"
        draft.complain(("metrics", "loss"), message, expected="another name, with its type beside it")


def evaluated(parts: Mapping[KeyPath, Part]) -> list[str]:
    """The names of the datasets that are evaluated."""
    return [name for name, _ in named(parts, "dataset") if name != "train"]


def evaluation_names(parts: Mapping[KeyPath, Part]) -> tuple[str, ...]:
    """Every value that an evaluation measures."""
    metrics = [name for name, _ in named(parts, "metrics")]
    return tuple(f"{dataset}/{name}" for dataset in evaluated(parts) for name in ("loss", *metrics))


def unknown_setting(draft: Draft, section: str, fault: Fault) -> Fault:
    """The fault of an engine's table; an unknown key that is valid elsewhere says where."""
    return with_home(draft.homes, (section,), fault) if fault.is_unknown_key else fault
