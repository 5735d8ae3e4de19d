"""What each kind of component must give, checked on the class where possible and on what it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pipeline.api.hook import EVENTS, Hook
from pipeline.api.kinds import Kind
from pipeline.api.order import Order
from pipeline.config.wording import nearest
from pipeline.errors import ComponentError

EXPECTED = {
    Kind.MODEL: "a torch.nn.Module",
    Kind.DATASET: "a dataset with __getitem__ and __len__, or with __iter__",
    Kind.OBJECTIVE: "a callable (model, batch) -> Outcome",
    Kind.OPTIMIZER: "a torch.optim.Optimizer whose step() needs no closure",
    Kind.SCHEDULER: "a scheduler with step, state_dict and load_state_dict, as torch's are",
    Kind.SAMPLER: "an order (samples_per_epoch and indices(epoch, start, stop)) or a torch Sampler",
    Kind.METRIC: "a pipeline.Metric",
    Kind.HOOK: "a pipeline.Hook",
}

_BASES = {
    Kind.MODEL: "torch.nn.modules.module.Module",
    Kind.OPTIMIZER: "torch.optim.optimizer.Optimizer",
    Kind.METRIC: "pipeline.api.metric.Metric",
    Kind.HOOK: "pipeline.api.hook.Hook",
}


def check_product(kind: Kind, product: object, origin: str) -> None:
    """Hold what a component gave against its kind.

    Args:
        origin: the component and where it comes from, for the message.

    Raises:
        ComponentError: if it is of the wrong type, says what it is and what was expected.
    """
    problem = _PRODUCT_PROBLEMS[kind](product)
    if problem is not None:
        raise ComponentError(f"{origin} gave {problem}; a {kind} must give {EXPECTED[kind]}")


def class_refusal(kind: Kind, component: Callable[..., Any]) -> str | None:
    """Why a class cannot be a component of a kind, as far as it shows before it is called."""
    if not isinstance(component, type):
        return None
    if kind in _BASES and _gives_itself(component) and not _inherits(component, _BASES[kind]):
        return f"it is a class that does not inherit {_BASES[kind]}; expected {EXPECTED[kind]}"
    if kind is Kind.OPTIMIZER:
        return _closure_problem(component)
    if kind is Kind.HOOK:
        return hook_problem(component)
    return None


def _gives_itself(component: type) -> bool:
    """Whether calling the class gives one of its instances, as it does unless it is tampered with."""
    own_new = any("__new__" in vars(parent) for parent in component.__mro__[:-1])  # object's comes last
    return not own_new and type(component).__call__ == type.__call__


def _inherits(component: type, base: str) -> bool:
    """By name, so that a class which is no module does not import torch."""
    return any(f"{parent.__module__}.{parent.__qualname__}" == base for parent in component.__mro__)


def hook_problem(hook: type) -> str | None:
    """What is wrong with a hook's methods: one named like an event that the loop does not have."""
    for name in dir(hook):
        if name.startswith("on_") and name not in EVENTS and callable(getattr(hook, name)):
            near = nearest(name, EVENTS)
            meant = f"; did you mean {near!r}?" if near else ""
            return f"the loop never calls its method {name!r}; it calls {', '.join(EVENTS)}{meant}"
    return None


def _closure_problem(optimizer: type) -> str | None:
    step = getattr(optimizer, "step", None)
    if step is None:
        return None
    required = [
        parameter.name
        for parameter in list(inspect.signature(step).parameters.values())[1:]
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    if not required:
        return None
    return f"its step() requires {', '.join(required)}; the engine calls step() after its own backward pass"


def _wrong_type(product: object) -> str:
    return (
        "None"
        if product is None
        else f"an object of type {type(product).__module__}.{type(product).__qualname__}"
    )


def _model(product: object) -> str | None:
    from torch.nn import Module

    return None if isinstance(product, Module) else _wrong_type(product)


def _dataset(product: object) -> str | None:
    from torch.utils.data import IterableDataset

    map_style = hasattr(product, "__getitem__") and hasattr(product, "__len__")
    if map_style or hasattr(product, "__iter__") or isinstance(product, IterableDataset):
        return None
    if hasattr(product, "__getitem__"):
        return f"{_wrong_type(product)}, which has no __len__"
    return _wrong_type(product)


def _objective(product: object) -> str | None:
    return None if callable(product) else _wrong_type(product)


def _optimizer(product: object) -> str | None:
    from torch.optim import Optimizer

    if not isinstance(product, Optimizer):
        return _wrong_type(product)
    problem = _closure_problem(type(product))
    return f"{_wrong_type(product)}: {problem}" if problem else None


def _scheduler(product: object) -> str | None:
    from torch.optim import Optimizer

    wanted = ("step", "state_dict", "load_state_dict")
    if isinstance(product, Optimizer):  # it has these methods too
        return _wrong_type(product)
    return None if all(callable(getattr(product, name, None)) for name in wanted) else _wrong_type(product)


def _sampler(product: object) -> str | None:
    from torch.utils.data import BatchSampler, Sampler

    if isinstance(product, Order):
        return None
    if not isinstance(product, Sampler):
        return _wrong_type(product)
    if isinstance(product, BatchSampler) or (
        hasattr(product, "batch_size") and hasattr(product, "drop_last")
    ):
        return f"{_wrong_type(product)}, a batch sampler: the engine forms the batches itself"
    return None


def _metric(product: object) -> str | None:
    from pipeline.api.metric import Metric

    return None if isinstance(product, Metric) else _wrong_type(product)


def _hook(product: object) -> str | None:
    if not isinstance(product, Hook):
        return _wrong_type(product)
    problem = hook_problem(type(product))
    return f"{_wrong_type(product)}: {problem}" if problem else None


_PRODUCT_PROBLEMS: dict[Kind, Callable[[object], str | None]] = {
    Kind.MODEL: _model,
    Kind.DATASET: _dataset,
    Kind.OBJECTIVE: _objective,
    Kind.OPTIMIZER: _optimizer,
    Kind.SCHEDULER: _scheduler,
    Kind.SAMPLER: _sampler,
    Kind.METRIC: _metric,
    Kind.HOOK: _hook,
}
