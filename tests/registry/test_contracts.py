"""What each kind must give, and how components are built and nested."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, Dataset, SequentialSampler, TensorDataset

from pipeline.api.hook import Hook
from pipeline.api.kinds import Kind
from pipeline.api.metric import Metric
from pipeline.api.register import register
from pipeline.config.plan import ComponentPlan, Place
from pipeline.errors import ComponentError
from pipeline.registry.contracts import check_product
from pipeline.registry.registry import Registry


class Natural:
    samples_per_epoch = 3

    def indices(self, epoch: int, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop)


class NoLength:
    def __getitem__(self, index: int) -> int:
        return index


class MisnamedHook(Hook):
    def on_step_ends(self, run: object) -> None: ...


def sgd() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)


KEPT = [
    (Kind.MODEL, nn.Linear(1, 1)),
    (Kind.DATASET, TensorDataset(torch.ones(2))),
    (Kind.DATASET, iter([1])),
    (Kind.OBJECTIVE, len),
    (Kind.OPTIMIZER, sgd()),
    (Kind.SCHEDULER, torch.optim.lr_scheduler.ReduceLROnPlateau(sgd())),
    (Kind.SCHEDULER, torch.optim.lr_scheduler.StepLR(sgd(), 1)),
    (Kind.SAMPLER, Natural()),
    (Kind.SAMPLER, SequentialSampler([1])),
    (Kind.METRIC, Metric()),
    (Kind.HOOK, Hook()),
]
BROKEN = [
    (Kind.MODEL, None, "None"),
    (Kind.DATASET, NoLength(), "no __len__"),
    (Kind.DATASET, 3, "builtins.int"),
    (Kind.OBJECTIVE, 3, "builtins.int"),
    (Kind.OPTIMIZER, nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    (Kind.OPTIMIZER, torch.optim.LBFGS([nn.Parameter(torch.ones(1))]), "closure"),
    (Kind.SCHEDULER, sgd(), "torch.optim.sgd.SGD"),
    (Kind.SAMPLER, [1, 2], "builtins.list"),
    (Kind.SAMPLER, BatchSampler(SequentialSampler([1]), 1, False), "batch sampler"),
    (Kind.METRIC, len, "builtin"),
    (Kind.HOOK, Metric(), "Metric"),
    (Kind.HOOK, MisnamedHook(), "did you mean 'on_step_end'"),
]


@pytest.mark.parametrize(("kind", "product"), KEPT, ids=lambda v: type(v).__name__)
def test_kept(kind, product):
    check_product(kind, product, "it")


@pytest.mark.parametrize(("kind", "product", "message"), BROKEN, ids=lambda v: type(v).__name__)
def test_broken(kind, product, message):
    with pytest.raises(ComponentError, match=rf"^the part gave .*{message}.* must give"):
        check_product(kind, product, "the part")


def plan(kind: Kind, type_name: str, arguments: dict[str, object] | None = None) -> ComponentPlan:
    return ComponentPlan(kind, str(kind), type_name, arguments or {}, Place("x.toml"))


def test_wrong_product_names_component_distribution_and_what_came(install):
    modules = {"wrong": "def make():\n    return 3\n"}
    install("wrong-pkg", "0.2", "[pipeline.models]\nthree = wrong:make\n", modules)
    factory = Registry.discover().bind(plan(Kind.MODEL, "three"))
    with pytest.raises(
        ComponentError, match=r"'three', wrong-pkg 0\.2 .*gave an object of type builtins\.int"
    ):
        factory()


def test_classes_of_the_wrong_kind_and_misnamed_hook_methods_are_found_before_the_run():
    register("model", "nomodel")(Natural)
    register("hook", "misnamed")(MisnamedHook)
    registry = Registry.discover()
    (fault,) = registry.check(Kind.MODEL, "nomodel", {}, folders={}).faults
    assert "torch.nn.Module" in fault.message
    (fault,) = registry.check(Kind.HOOK, "misnamed", {}, folders={}).faults
    assert "'on_step_ends'" in fault.message and "did you mean 'on_step_end'" in fault.message
    with pytest.raises(ComponentError, match="on_step_ends"):
        registry.bind(plan(Kind.HOOK, "misnamed"))


def test_the_engine_passes_by_name_only_what_the_signature_has():
    def lazy(optimizer, total_steps: int, pace: float = 1.0):
        assert (total_steps, pace) == (7, 2.0)
        return torch.optim.lr_scheduler.StepLR(optimizer, total_steps)

    register("scheduler", "lazy")(lazy)
    registry = Registry.discover()
    assert registry.accepts(Kind.SCHEDULER, "lazy") == {"pace"}
    checked = registry.check(Kind.SCHEDULER, "lazy", {"pace": 2}, folders={})
    registry.bind(plan(Kind.SCHEDULER, "lazy", dict(checked.arguments)))(
        sgd(), total_steps=7, steps_per_epoch=3
    )


def test_the_plan_survives_a_component_that_changes_its_arguments():
    def greedy(sizes: list[int]) -> nn.Module:
        return nn.Linear(sizes.pop(), sizes.pop())

    register("model", "greedy")(greedy)
    arguments = {"sizes": [1, 2]}
    factory = Registry.discover().bind(plan(Kind.MODEL, "greedy", arguments))
    factory(), factory()
    assert arguments == {"sizes": [1, 2]}


class Stack(nn.Module):
    def __init__(self, blocks: list[nn.Module], head: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.head = head


class Limited(Dataset):
    def __init__(self, source: Dataset, limit: int) -> None:
        self.source, self.limit = source, limit

    def __len__(self) -> int:
        return self.limit

    def __getitem__(self, index: int) -> object:
        return self.source[index]


def linear(width: int, bias: bool = True) -> nn.Module:
    return nn.Linear(width, width, bias)


def test_nested_components():
    register("model", "stack")(Stack)
    register("model", "line")(linear)
    registry = Registry.discover()
    table = {"blocks": [{"type": "line", "width": 2}, {"type": "line", "width": 3}]}
    checked = registry.check(Kind.MODEL, "stack", table, folders={})
    assert checked.faults == ()
    assert checked.plain["blocks"][1] == {"type": "line", "width": 3, "bias": True}
    outer = plan(Kind.MODEL, "stack", dict(checked.arguments))
    model = registry.bind(outer)()
    assert [block.in_features for block in model.blocks] == [2, 3] and model.head is None
    assert [record.key for record in registry.provenance(outer)] == [
        "model", "model.blocks.0", "model.blocks.1",
    ]  # fmt: skip

    table = {"blocks": [{"type": "line", "widht": 2}], "head": {"type": "lien"}}
    faults = {f.path: f for f in registry.check(Kind.MODEL, "stack", table, folders={}).faults}
    assert set(faults) == {("blocks", 0, "widht"), ("blocks", 0, "width"), ("head", "type")}
    assert faults["head", "type"].nearest == "line"
    (fault,) = registry.check(Kind.MODEL, "stack", {"blocks": ["line"]}, folders={}).faults
    assert fault.path == ("blocks", 0) and "type" in fault.expected


def test_nested_dataset_of_a_subclass():
    register("dataset", "limited")(Limited)
    register("dataset", "natural")(lambda size: TensorDataset(torch.arange(size)))
    registry = Registry.discover()
    table = {"source": {"type": "natural", "size": 9}, "limit": 4}
    checked = registry.check(Kind.DATASET, "limited", table, folders={})
    dataset = registry.bind(plan(Kind.DATASET, "limited", dict(checked.arguments)))()
    assert len(dataset) == 4 and len(dataset.source) == 9
