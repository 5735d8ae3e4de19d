"""Torch's own optimizers and schedulers, without a wrapper."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from pipeline.api.kinds import Kind
from pipeline.config.plan import ComponentPlan, Place
from pipeline.registry.registry import Registry
from torch_versions import LACKING

ENTRIES = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]
OPTIMIZERS = sorted(ENTRIES["pipeline.optimizers"].keys() - LACKING)
SCHEDULERS = sorted(
    name for name, target in ENTRIES["pipeline.schedulers"].items() if target.startswith("torch.")
)
REFUSED = {
    "lbfgs": "step() requires closure",
    "lambda_lr": "'lr_lambda'",
    "multiplicative_lr": "'lr_lambda'",
    "sequential_lr": "'schedulers'",
    "chained_scheduler": "'schedulers'",
}
MINIMUM = {
    "cosine_annealing_lr": {"T_max": 10},
    "cosine_annealing_warm_restarts": {"T_0": 10},
    "cyclic_lr": {"base_lr": 0, "max_lr": [1]},
    "exponential_lr": {"gamma": 0.5},
    "multi_step_lr": {"milestones": [3, 5]},
    "one_cycle_lr": {"max_lr": 1},
    "step_lr": {"step_size": 3},
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.discover()


def bound(registry: Registry, kind: Kind, name: str, table: dict[str, object]):
    checked = registry.check(kind, name, table, folders={})
    assert checked.faults == ()
    assert tomllib.loads(_toml(checked.plain)) == checked.plain
    return registry.bind(ComponentPlan(kind, str(kind), name, checked.arguments, Place("x.toml")))


def _toml(table) -> str:
    import tomli_w

    return tomli_w.dumps(dict(table))


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in REFUSED])
def test_optimizer_with_its_defaults(registry, name):
    weights = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = bound(registry, Kind.OPTIMIZER, name, {})([weights])
    weights.grad = torch.ones(2, 2).to_sparse() if name == "sparse_adam" else torch.ones(2, 2)
    optimizer.step()
    assert not torch.equal(weights.detach(), torch.ones(2, 2))


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name not in REFUSED])
def test_scheduler_with_the_least_it_needs(registry, name):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.9)
    scheduler = bound(registry, Kind.SCHEDULER, name, MINIMUM.get(name, {}))(
        optimizer, total_steps=20, steps_per_epoch=5
    )
    assert scheduler.optimizer is optimizer
    if name == "one_cycle_lr":
        assert scheduler.total_steps == 20


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_with_the_reason(registry, name):
    kind = Kind.OPTIMIZER if name in OPTIMIZERS else Kind.SCHEDULER
    (fault,) = registry.check(kind, name, {}, folders={}).faults
    assert fault.path == ("type",) and REFUSED[name] in fault.message
    assert REFUSED[name] in (registry.describe(kind, name).refused or "")


def test_an_optimizer_that_an_older_torch_lacks_is_told(registry, monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    (fault,) = Registry.discover().check(Kind.OPTIMIZER, "muon", {}, folders={}).faults
    assert fault.path == ("type",) and "torch.optim has no 'Muon'" in fault.message


def test_arguments_that_the_engine_or_nobody_can_pass(registry):
    table = {"total_steps": 5, "optimizer": 1, "max_lr": 1.0, "scale_fn": "x"}
    faults = {f.path[0]: f for f in registry.check(Kind.SCHEDULER, "one_cycle_lr", table, folders={}).faults}
    assert set(faults) == {"total_steps", "optimizer", "scale_fn"}
    assert "engine passes" in faults["total_steps"].message
    table = {"base_lr": 0.1, "max_lr": 1.0, "scale_fn": "x"}
    (fault,) = registry.check(Kind.SCHEDULER, "cyclic_lr", table, folders={}).faults
    assert fault.path == ("scale_fn",) and "a callable" in fault.message


def test_accepted_names_and_the_table_to_paste(registry):
    accepted = registry.accepts(Kind.OPTIMIZER, "adamw")
    assert accepted is not None and {"lr", "betas", "fused"} <= accepted and "params" not in accepted
    for kind, name in [
        *((Kind.OPTIMIZER, n) for n in OPTIMIZERS),
        *((Kind.SCHEDULER, n) for n in SCHEDULERS),
    ]:
        description = registry.describe(kind, name)
        if description.refused:
            continue
        (table,) = tomllib.loads(description.table).values()
        assert table.pop("type") == name
        assert registry.check(kind, name, table, folders={}).faults == ()


def test_parameters_are_described(registry):
    described = {p.name: p for p in registry.describe(Kind.OPTIMIZER, "adamw").parameters}
    assert described["betas"].default == [0.9, 0.999]
    assert described["betas"].type == "tuple[float | Tensor, float | Tensor]"
    assert described["lr"].doc.startswith("learning rate")


def test_groups_check_only_what_is_given(registry):
    checked = registry.check(Kind.OPTIMIZER, "sgd", {"weight_decay": 0}, folders={}, only=True)
    assert dict(checked.arguments) == {"weight_decay": 0.0} and checked.faults == ()
    (fault,) = registry.check(Kind.OPTIMIZER, "sgd", {"weight_decy": 0}, folders={}, only=True).faults
    assert fault.nearest == "weight_decay"
