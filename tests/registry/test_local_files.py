"""Local files that register components."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.api.kinds import Kind
from pipeline.cli.loading import load_with_registry
from pipeline.config.plan import ComponentPlan, Place
from pipeline.errors import ConfigError
from pipeline.registry.registry import Registry

TINY = """
import torch
from pipeline import register

@register("model", "tiny")
class Tiny(torch.nn.Module):
    def __init__(self, width: int = 3):
        super().__init__()
        self.width = width
"""


@pytest.fixture
def registry() -> Registry:
    return Registry.discover()


def write(path: Path, text: str = TINY) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_registers_builds_and_is_recorded(tmp_path, registry):
    """REG-05: with the file listed its component works from any folder, and its content is recorded."""
    file = write(tmp_path / "my_parts_a.py")
    assert "tiny" not in {line.name for line in registry.listing()}
    assert registry.load_local([file]) == ()
    plan = ComponentPlan(Kind.MODEL, "model", "tiny", {"width": 4}, Place("x.toml"))
    model = registry.bind(plan)()
    assert model.width == 4
    (record,) = registry.provenance(plan)
    assert record.file_hash == hashlib.sha256(file.read_bytes()).hexdigest()
    assert record.target == f"{file}:Tiny" and record.distribution is None and record.module == "my_parts_a"
    assert registry.check(Kind.MODEL, "my_parts_a/tiny", {}, folders={}).faults == ()


def test_once_per_process(tmp_path, registry):
    file = write(
        tmp_path / "counted.py",
        TINY + "\nimport sys\nsys.modules['counted'].runs = 1 + globals().get('runs', 0)\n",
    )
    other = Registry.discover()
    assert registry.load_local([file, file]) == () and other.load_local([file]) == ()
    assert sys.modules["counted"].runs == 1
    assert len([line for line in registry.listing(Kind.MODEL) if line.name == "tiny"]) == 1


def test_same_stem_twice(tmp_path, registry):
    """REG-04: two files of one name can both be loaded; the clash shows when the name is used."""
    first, second = write(tmp_path / "a" / "twins.py"), write(tmp_path / "b" / "twins.py")
    assert registry.load_local([first, second]) == ()
    (fault,) = registry.check(Kind.MODEL, "tiny", {}, folders={}).faults
    assert str(first) in fault.message and str(second) in fault.message and "rename" in fault.expected


def test_clash_with_a_builtin_is_resolved_by_the_files_stem(tmp_path, registry):
    """REG-02: a local file does not silently replace a built-in."""
    file = write(
        tmp_path / "my_sgd.py",
        'import torch\nfrom pipeline import register\nregister("optimizer", "sgd")(torch.optim.Adam)\n',
    )
    assert registry.load_local([file]) == ()
    (fault,) = registry.check(Kind.OPTIMIZER, "sgd", {}, folders={}).faults
    assert '"pipeline-ddp/sgd"' in fault.expected


@pytest.mark.parametrize(
    ("text", "error", "frame"),
    [
        ("import does_not_exist\n", "ModuleNotFoundError", "import does_not_exist"),
        ("def f(:\n", "SyntaxError", "def f(:"),
        ("raise SystemExit(2)\n", "SystemExit", "raise SystemExit(2)"),
        ("open('/no/such/file')\n", "FileNotFoundError", "/no/such/file"),
        ("class E(Exception):\n    def __init__(self, a, b): ...\nraise E(1, 2)\n", "E", "raise E(1, 2)"),
    ],
)
def test_errors_come_back_with_their_traceback(tmp_path, registry, text, error, frame):
    """REG-06: what a local file raises is shown with its own frames."""
    good, bad = write(tmp_path / "fine.py"), write(tmp_path / "broken_local.py", text)
    (fault,) = registry.load_local([good, bad, tmp_path / "absent.py"])[:1]
    assert fault.path == (1,) and error in fault.message and str(bad) in fault.message
    assert frame in fault.detail and "registry/local.py" not in fault.detail
    assert "broken_local" not in sys.modules
    (missing,) = registry.load_local([tmp_path / "absent.py"])
    assert missing.path == (0,) and "there is no file" in missing.message


def test_neighbours_and_spawned_processes_can_import_it(tmp_path, registry):
    write(tmp_path / "layers_beside.py", "WIDTH = 8\n")
    file = write(tmp_path / "uses_beside.py", "from layers_beside import WIDTH\n" + TINY)
    assert registry.load_local([file]) == ()
    model = registry.bind(ComponentPlan(Kind.MODEL, "model", "tiny", {}, Place("x.toml")))()
    code = (  # what multiprocessing's spawn does: the parent's sys.path, then unpickling
        "import sys, pickle; sys.path = pickle.loads(sys.stdin.buffer.read(int(sys.argv[1])))\n"
        "assert pickle.load(sys.stdin.buffer).width == 3\n"
    )
    path = pickle.dumps(sys.path)
    subprocess.run(
        [sys.executable, "-c", code, str(len(path))], input=path + pickle.dumps(model), check=True, cwd="/"
    )


def test_a_file_that_is_already_imported_is_not_run_again(tmp_path, registry, monkeypatch):
    file = write(tmp_path / "was_imported.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("was_imported")
    assert registry.load_local([file]) == ()
    assert registry.check(Kind.MODEL, "tiny", {}, folders={}).faults == ()


def test_a_file_that_does_not_import_is_reported_where_it_is_named_with_all_else(tmp_path, monkeypatch):
    """CFG-05: and a name that nobody has is not reported beside it, since that file may have it."""
    write(tmp_path / "broken_parts.py", "raise ValueError('not today')\n")
    config = 'components = [\n  "broken_parts.py",\n]\nsed = 1\n[model]\ntype = "tiny"\n'
    (tmp_path / "pipeline.toml").write_text(config)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_with_registry("pipeline.toml")
    heads = [(problem.place, problem.key) for problem in caught.value.problems]
    assert ("pipeline.toml:2:3", "components") in heads and ("pipeline.toml:4:1", "sed") in heads
    assert ("pipeline.toml:6:1", "model.type") not in heads
    assert "ValueError: not today" in str(caught.value)


def test_a_file_that_another_config_lists_in_this_process_claims_no_name_here(tmp_path):
    """REG-04: two configs of one process, each with a file of its own that registers the name."""
    first, second = write(tmp_path / "parts_one.py"), write(tmp_path / "parts_two.py")
    for file in (first, second):
        registry = Registry.discover()
        assert registry.load_local([file]) == ()
        plan = ComponentPlan(Kind.MODEL, "model", "tiny", {}, Place("x.toml"))
        assert registry.provenance(plan)[0].target == f"{file}:Tiny"
    both = Registry.discover()
    assert both.load_local([first, second]) == ()
    (fault,) = both.check(Kind.MODEL, "tiny", {}, folders={}).faults
    assert fault.expected == 'which one: "parts_one/tiny" or "parts_two/tiny"'
    assert not [line for line in Registry.discover().listing() if line.name == "tiny"]
