"""Names, clashes, and packages that do not import."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import pytest

from pipeline.api.kinds import Kind
from pipeline.api.register import registrations
from pipeline.config.plan import ComponentPlan, Place
from pipeline.errors import ComponentError
from pipeline.registry.discovery import Discovery, discover_installed
from pipeline.registry.registry import Registry

OPTIMIZER = """
    import torch

    class Mine(torch.optim.SGD):
        pass

    def tiny():
        return torch.nn.Linear(1, 1)
"""


def plan_of(kind: Kind, type_name: str, **arguments: object) -> ComponentPlan:
    return ComponentPlan(kind, str(kind), type_name, arguments, Place("pipeline.toml", 3, 8))


def fault_of(registry: Registry, kind: Kind, type_name: str):
    (fault,) = registry.check(kind, type_name, {}, folders={}).faults
    assert fault.path == ("type",)
    return fault


def test_plugin_does_not_replace_a_builtin(install):
    """REG-02: a name that a built-in has too must be qualified, in whatever order the path is read."""
    install(
        "otherpkg", "2.1", "[pipeline.optimizers]\nadamw = other_optim:Mine\n", {"other_optim": OPTIMIZER}
    )
    found = discover_installed()
    messages = set()
    for seed in range(20):
        entries = random.Random(seed).sample(found.entries, len(found.entries))
        fault = fault_of(Registry(Discovery(tuple(entries), ())), Kind.OPTIMIZER, "adamw")
        assert '"otherpkg/adamw"' in fault.expected and '"pipeline-ddp/adamw"' in fault.expected
        messages.add(" ".join(sorted(fault.message.split())))
    assert len(messages) == 1 and "otherpkg 2.1" in fault.message and "torch.optim:AdamW" in fault.message
    assert "other_optim" not in sys.modules

    registry = Registry.discover()
    import torch

    weights = [torch.nn.Parameter(torch.ones(1))]
    mine = registry.bind(plan_of(Kind.OPTIMIZER, "OtherPkg/adamw"))(weights)
    assert type(mine).__module__ == "other_optim"
    builtin = registry.bind(plan_of(Kind.OPTIMIZER, "pipeline_ddp/adamw"))(weights)
    assert type(builtin) is torch.optim.AdamW
    (record,) = registry.provenance(plan_of(Kind.OPTIMIZER, "otherpkg/adamw"))
    assert (record.distribution, record.version, record.module) == ("otherpkg", "2.1", "other_optim")
    assert record.file_hash is None


def test_two_packages_with_one_name(install):
    """REG-04: both can be imported; the bare name is an error only when it is used."""
    modules = {"p1": OPTIMIZER, "p2": OPTIMIZER}
    install("p1", entries="[pipeline.models]\ntoy = p1:tiny\nown = p1:tiny\n", modules=modules)
    install("p2", entries="[pipeline.models]\ntoy = p2:tiny\n")
    registry = Registry.discover()
    for name in ("p1/toy", "p2/toy", "own"):
        assert registry.check(Kind.MODEL, name, {}, folders={}).faults == ()
    fault = fault_of(registry, Kind.MODEL, "toy")
    assert "p1 1.0" in fault.message and "p2 1.0" in fault.message
    assert fault.expected == 'which one: "p1/toy" or "p2/toy"'
    clashes = {line.name: line.clash for line in registry.listing(Kind.MODEL)}
    assert clashes["toy"] and not clashes["own"]


def test_registering_again_replaces_and_another_definition_clashes():
    """REG-04: a notebook cell run twice is one definition; two definitions name both places."""

    def run_cell(name: str) -> type:
        cell = f"from pipeline import register\n@register('model', 'cell')\nclass {name}: pass\n"
        namespace = {"__name__": "notebook"}
        exec(cell, namespace)
        return namespace[name]

    registry = Registry.discover()
    run_cell("Cell")
    latest = run_cell("Cell")
    (only,) = registrations()
    assert only.component is latest
    run_cell("Other")
    fault = fault_of(registry, Kind.MODEL, "cell")
    assert "notebook.Cell (" in fault.message and "notebook.Other (" in fault.message
    assert "rename" in fault.expected


def test_unknown_names_say_what_is_near_and_what_is_elsewhere():
    """REG-05: close names, the kinds that do have the name, the group and the components key."""
    registry = Registry.discover()
    fault = fault_of(registry, Kind.OPTIMIZER, "warmup_cosin")
    assert fault.nearest == ""
    fault = fault_of(registry, Kind.OPTIMIZER, "addamw")
    assert fault.nearest == "adamw"
    assert "pipeline.optimizers" in fault.expected and 'components = ["file.py"]' in fault.expected
    assert "sgd" in fault.detail
    assert "optimizer" in fault_of(registry, Kind.MODEL, "adamw").message
    assert fault_of(registry, Kind.MODEL, "pipeline-dpd/mlp").nearest == "pipeline-ddp/mlp"
    assert registry.accepts(Kind.MODEL, "no-such") is None


BROKEN = {
    "missing_dependency": "import does_not_exist\n",
    "syntax_error": "def broken(:\n    pass\n",
    "leaves": "import sys\nsys.exit(3)\n",
    "without_object": "class Boon:\n    pass\n",
    "crooked": "class E(Exception):\n    def __init__(self, a, b):\n        pass\nraise E(1, 2)\n",
}


@pytest.fixture
def broken(install):
    entries = "[pipeline.hooks]\n" + "".join(f"{name} = {name}:Boom\n" for name in BROKEN)
    install("bad-pkg", "0.7", entries + "gone = no_such_module:Boom\n", BROKEN)
    install("good", entries="[pipeline.models]\ntiny = good:tiny\n", modules={"good": OPTIMIZER})
    return Registry.discover()


@pytest.mark.parametrize(
    ("name", "error", "frame"),
    [
        ("missing_dependency", "ModuleNotFoundError", "import does_not_exist"),
        ("syntax_error", "SyntaxError", "def broken(:"),
        ("leaves", "SystemExit", "sys.exit(3)"),
        ("without_object", "has no 'Boom'", ""),
        ("crooked", "E", "raise E(1, 2)"),
        ("gone", "ModuleNotFoundError", "No module named 'no_such_module'"),
    ],
)
def test_broken_package_costs_nothing_until_named_and_then_tells_why(broken, name, error, frame):
    """REG-01, REG-06: the original error with its own frames, told apart from an unknown name."""
    assert broken.check(Kind.MODEL, "tiny", {}, folders={}).faults == ()
    assert not set(BROKEN) & set(sys.modules)
    fault = fault_of(broken, Kind.HOOK, name)
    assert (
        error in fault.message and "bad-pkg 0.7" in fault.message and f"{name.split('/')[0]}" in fault.message
    )
    assert ":Boom" in fault.message and "there is no" not in fault.message
    assert frame in fault.detail
    assert "loading.py" not in fault.detail and "importlib" not in fault.detail
    with pytest.raises(ComponentError, match=r"bad-pkg 0\.7"):
        broken.bind(plan_of(Kind.HOOK, name))


def test_nearest_object_of_a_module_is_given(broken):
    assert fault_of(broken, Kind.HOOK, "without_object").nearest == "Boon"


def test_nearest_object_of_a_large_module_is_given(install):
    names = "".join(f"A{number} = None\n" for number in range(600))
    install(
        "large",
        "1.0",
        "[pipeline.hooks]\nlate = large_module:Boom\n",
        {"large_module": f"{names}Boon = None\n"},
    )
    assert fault_of(Registry.discover(), Kind.HOOK, "late").nearest == "Boon"


def test_listing_marks_broken_ones(broken):
    """REG-01: the list shows good components and marks broken ones with the reason."""
    problems = {line.name: line.problem for line in broken.listing() if line.distribution != "pipeline-ddp"}
    assert problems["tiny"] is None
    assert "SyntaxError" in problems["syntax_error"] and "no_such_module" in problems["gone"]
    assert not set(BROKEN) & set(sys.modules)
    loaded = {line.name: line.problem for line in broken.listing(Kind.HOOK, load=True)}
    assert "SystemExit" in loaded["leaves"] and "ModuleNotFoundError" in loaded["missing_dependency"]
    assert "import does_not_exist" in (broken.describe(Kind.HOOK, "missing_dependency").problem or "")


CONSTRUCTORS = """
    import torch

    class Bare(Exception):
        def __init__(self):
            super().__init__()

    class Two(Exception):
        def __init__(self, one, two):
            super().__init__(one, two)

    def bare():
        raise Bare

    def two():
        raise Two(1, 2)
"""


@pytest.mark.parametrize(("name", "error"), [("bare", "Bare"), ("two", "Two")])
def test_what_a_constructor_raises_passes_unchanged(install, name, error):
    """REG-06 (c), (d): exceptions with odd constructors reach the engine as they are."""
    entries = "[pipeline.models]\nbare = ctors:bare\ntwo = ctors:two\n"
    install("ctors", entries=entries, modules={"ctors": CONSTRUCTORS})
    factory = Registry.discover().bind(plan_of(Kind.MODEL, name))
    with pytest.raises(Exception) as caught:
        factory()
    assert type(caught.value).__name__ == error and caught.value.__cause__ is None


def test_bind_of_unknown_names_the_key():
    with pytest.raises(ComponentError, match=r"^hooks\.mine: there is no hook 'mien'"):
        Registry.discover().bind(replace(plan_of(Kind.HOOK, "mien"), key="hooks.mine"))
