"""What a config costs to read grows with its size and no faster, whatever is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.config.config import fingerprint, to_toml
from pipeline.config.layers import read
from pipeline.config.validate import load
from pipeline.errors import ConfigError

ROOT = Path(__file__).parents[2]
BASE = """\
[model]
type = "mlp"
in_features = 64
hidden = [8]
out_features = 10
[dataset.train]
type = "digits"
[objective]
type = "cross_entropy"
[optimizer]
type = "adamw"
[train]
epochs = 2
global_batch_size = 64
"""

SHAPES: dict[str, Callable[[int], str]] = {
    "values": lambda n: "[vars]\n" + "".join(f"k{i} = {i}\n" for i in range(n)),
    "one array": lambda n: f"[vars]\na = [{'1, ' * n}]\n",
    "one inline table": lambda n: f"[vars]\na = {{{', '.join(f'k{i} = 1' for i in range(n))}}}\n",
    "references": lambda n: "[vars]\nx = 1\n" + "".join(f'k{i} = "${{vars.x}}"\n' for i in range(n)),
    "references to nothing": lambda n: "[vars]\n" + "".join(f'k{i} = "${{vars.no{i}}}"\n' for i in range(n)),
    "a circle": lambda n: "[vars]\n" + "".join(f'k{i} = "${{vars.k{(i + 1) % n}}}"\n' for i in range(n)),
    "unknown tables": lambda n: "".join(f"[zz{i}]\n" for i in range(n)),
    "groups": lambda n: "".join(f"[[optimizer.groups]]\nparams = ['a{i}']\nlrr = 1\n" for i in range(n)),
    "hooks": lambda n: "".join(f"[hooks.h{i}]\ntype = 'ema'\n" for i in range(n)),
    "unknown hooks": lambda n: "".join(f"[hooks.h{i}]\n" for i in range(n)),
    "unknown arguments": lambda n: "".join(f"[hooks.h{i}]\ntype = 'ema'\nz{i} = 1\n" for i in range(n)),
    "unfitting items": lambda n: f"[dataset.eval]\ntype = 'random'\ninput_shape = [{'true, ' * n}]\n",
    "unfitting variables": lambda n: "".join(
        f"[hooks.h{i}]\ntype = 'ema'\ndecay = '${{oc.env:TEST_TEXT}}-{i}'\n" for i in range(n)
    ),
}


def calls_of(action: Callable[[], object]) -> int:
    """How many functions are called; they are the same at every run."""
    calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_twice_the_config_costs_at_most_twice_the_calls(
    tmp_path, monkeypatch, schemas_of_installed, count, shape
) -> None:
    monkeypatch.setenv("TEST_TEXT", "a text that is no number")
    path = tmp_path / "pipeline.toml"

    def cost(size: int) -> int:
        path.write_text(BASE + shape(size))

        def attempt() -> None:
            try:
                load(read(path), schemas_of_installed)
            except ConfigError as error:
                assert str(error)

        return calls_of(attempt)

    cost(8)  # imports, and what is kept from then on
    size = count(40, 1000)
    small, large = cost(size), cost(2 * size)
    assert large <= 2.2 * small, (small, large)


EXAMPLES = [ROOT / "pipeline.toml", *sorted((ROOT / "examples").glob("*.toml"))]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_the_same_once_it_was_resolved_and_saved(
    tmp_path, schemas_of_installed, example
) -> None:
    config = load(read(example), schemas_of_installed)
    saved = tmp_path / example.name
    saved.write_text(to_toml(config, 5))
    again = load(read(saved), schemas_of_installed)
    assert again.tree == {**config.tree, "seed": 5}
    assert fingerprint(again, 5) == fingerprint(config, 5)
    saved.write_text(to_toml(again, 5))
    assert saved.read_text() == to_toml(config, 5)
