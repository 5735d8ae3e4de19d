"""The reports of faults in finding components, each at its smallest input through the real command."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runs_of import only_run, record_of

TINY = """\
seed = 1
[model]
type = "{model}"
in_features = 4
hidden = [5]
out_features = 3
[dataset.train]
type = "random"
length = 20
input_shape = [4]
classes = 3
[objective]
type = "cross_entropy"
[optimizer]
type = "{optimizer}"
lr = 0.1
[train]
steps = 2
global_batch_size = 8
{extra}
"""

LOCAL = """
from pipeline import register
from pipeline.components.models.mlp import MLP

@register("model", "{name}")
class Mine(MLP):
    pass
"""


class Place:
    """A folder of packages and a config, and the command in processes that see both."""

    def __init__(self, folder: Path, command) -> None:
        self.folder, self.command = folder, command
        self.site = folder / "site"
        self.site.mkdir()

    def package(
        self, name: str, entries: str, modules: dict[str, str] | None = None, version: str = "1.0"
    ) -> None:
        info = self.site / f"{name}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n")
        (info / "entry_points.txt").write_text(entries)
        for module, text in (modules or {}).items():
            (self.site / f"{module}.py").write_text(text)

    def config(self, *, model: str = "mlp", optimizer: str = "sgd", head: str = "", extra: str = "") -> Path:
        path = self.folder / "pipeline.toml"
        path.write_text(head + TINY.format(model=model, optimizer=optimizer, extra=extra))
        return path

    def call(self, *arguments: object, status: int = 0, ranks: int = 1, cwd: Path | None = None, paths=None):
        path = ":".join(map(str, paths or [self.site]))
        job = self.command(
            ranks, list(arguments), launcher=ranks > 1, cwd=cwd or self.folder, env={"PYTHONPATH": path}
        )
        assert job.wait()[0] == status, job.report()
        return job


@pytest.fixture
def place(tmp_path, command) -> Place:
    return Place(tmp_path, command)


BROKEN = "[pipeline.hooks]\nmissing = bad_missing:Hook\nsyntax = bad_syntax:Hook\nleaves = bad_leaves:Hook\n"
BROKEN_MODULES = {
    "bad_missing": "import a_module_that_is_not_there\n",
    "bad_syntax": "class Hook(:\n",
    "bad_leaves": "import sys\nsys.exit(3)\n",
}


def test_a_broken_package_costs_only_those_who_name_it(place):
    """REG-01, REG-06: nothing of it is imported until it is named; then it tells who, what and why."""
    place.package(
        "bad", BROKEN, {name: f"print('imported')\n{text}" for name, text in BROKEN_MODULES.items()}
    )
    job = place.call("run", place.config())
    assert "imported" not in job.output(0)
    extra = "[hooks.missing]\n[hooks.syntax]\n[hooks.leaves]\n"
    text = place.call("check", place.config(extra=extra), status=2).stderr(0)
    for words in (
        "hook 'missing' of bad 1.0 (entry point \"bad_missing:Hook\") cannot be loaded: importing it raised "
        "ModuleNotFoundError",
        "No module named 'a_module_that_is_not_there'",
        "importing it raised SyntaxError",
        "class Hook(:",
        "importing it raised SystemExit",
        "sys.exit(3)",
    ):
        assert words in text
    rows = json.loads(place.call("components", "hook", "--json").stdout(0))
    problems = {row["name"]: row["problem"] for row in rows if row["distribution"] == "bad"}
    assert "SyntaxError" in problems["syntax"] and problems["missing"] is None
    loaded = json.loads(
        place.call("components", "hook", "--load", "--json").stdout(0).rpartition("imported\n")[2]
    )
    assert all(row["problem"] for row in loaded if row["distribution"] == "bad")


def test_a_plugin_does_not_shadow_a_built_in_in_any_order_of_the_path(place):
    """REG-02: it is asked for by its qualified name, and the record says who gave the component."""
    module = "from torch.optim import SGD\nclass Mine(SGD): pass\n"
    place.package(
        "otherpkg", "[pipeline.optimizers]\nadamw = other_optim:Mine\n", {"other_optim": module}, "2.1"
    )
    folders = [place.site, *(place.folder / name for name in "abc")]
    lines = set()
    for seed in range(2):
        paths = random.Random(seed).sample(folders, len(folders))
        job = place.call("check", place.config(optimizer="adamw"), status=2, paths=paths)
        lines.add(job.stderr(0))
    (line,) = lines
    assert '"otherpkg/adamw" or "pipeline-ddp/adamw"' in line
    place.call("run", place.config(optimizer="otherpkg/adamw"))
    components = record_of(only_run(place.folder / "runs"))["components"]
    (optimizer,) = (row for row in components if row["key"] == "optimizer")
    assert (optimizer["distribution"], optimizer["version"]) == ("otherpkg", "2.1")


def test_two_packages_and_two_files_may_use_one_name(place):
    """REG-04: the bare name is an error only where it is used, with both origins and spellings."""
    for name in ("p1", "p2"):
        place.package(name, f"[pipeline.models]\ntoy = {name}_parts:MLP\nown_{name} = {name}_parts:MLP\n")
        (place.site / f"{name}_parts.py").write_text("from pipeline.components.models.mlp import MLP\n")
    for model in ("own_p1", "p1/toy", "p2/toy"):
        place.call("check", place.config(model=model))
    text = place.call("check", place.config(model="toy"), status=2).stderr(0)
    assert 'expected which one: "p1/toy" or "p2/toy"' in text and "p1 1.0" in text and "p2 1.0" in text


@pytest.mark.parametrize(
    ("model", "listed", "words"),
    [
        ("mien", True, ["did you mean 'mine'?"]),
        ("mine", False, ['components = ["file.py"]', "known names of the kind model", "pipeline.models"]),
        ("adamw", True, ["among the kinds: optimizer"]),
    ],
)
def test_a_name_that_is_not_found_says_where_it_was_looked_for(place, model, listed, words):
    """REG-05: without the file, with a slip, and with a name of another kind."""
    (place.folder / "my_parts.py").write_text(LOCAL.format(name="mine"))
    head = 'components = ["my_parts.py"]\n' if listed else ""
    text = place.call("check", place.config(model=model, head=head), status=2).stderr(0)
    assert all(word in text for word in words), text


def test_a_local_file_works_on_every_rank_from_any_folder(place, tmp_path_factory):
    """REG-05, REQ-10: its path is relative to the config."""
    (place.folder / "my_parts.py").write_text(LOCAL.format(name="mine"))
    config = place.config(model="mine", head='components = ["my_parts.py"]\n')
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    place.call("run", config, "--runs-dir", place.folder / "runs", ranks=2, cwd=elsewhere)
    assert record_of(only_run(place.folder / "runs"))["status"] == "completed"


CONSTRUCTORS = """
from pipeline import register
class Bare(Exception):
    def __init__(self): super().__init__("a bare cause")
class Two(Exception):
    def __init__(self, first, second): super().__init__(first, second)

@register("model", "bare")
def bare(in_features: int, hidden: list[int], out_features: int):
    raise Bare()

@register("model", "two")
def two(in_features: int, hidden: list[int], out_features: int):
    raise Two("one cause", "two causes")
"""


@pytest.mark.parametrize(
    ("model", "words"), [("bare", ["Bare", "a bare cause"]), ("two", ["Two", "one cause"])]
)
def test_what_a_constructor_raises_is_shown_with_its_key(place, model, words):
    """REG-06: exceptions whose own constructors take no arguments, or two."""
    (place.folder / "raisers.py").write_text(CONSTRUCTORS)
    config = place.config(model=model, head='components = ["raisers.py"]\n')
    text = place.call("run", config, status=1).stderr(0)
    assert all(word in text for word in [*words, "raisers.py", f"model '{model}'", "raise "]), text


COUNT = """
import sys
opened = []

def note(event, arguments):
    if event != "open" or not str(arguments[0]).startswith(sys.argv[2]):
        return
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith("registry/discovery.py"):
            opened.append(str(arguments[0]))
            return
        frame = frame.f_back

sys.addaudithook(note)
from pipeline.cli.loading import load_with_registry
load_with_registry(sys.argv[1])
load_with_registry(sys.argv[1])
print(*(sum(name.endswith(file) for name in opened) for file in ("entry_points.txt", "METADATA")))
print(sum(name.startswith("plugin_") for name in sys.modules))
"""
"""Counts the files of packages that discovery opens; torch reads the same metadata for itself."""


def test_400_packages_are_read_once_and_not_imported(place):
    """REG-07: each entry_points.txt is opened once a process, the headers only of those that matter here."""
    for number in range(400):
        group = "pipeline.models" if number < 3 else "console_scripts"
        place.package(f"p{number}", f"[{group}]\nname_{number} = plugin_{number}:Thing\n")
    line = [sys.executable, "-c", COUNT, str(place.config()), str(place.site)]
    done = subprocess.run(
        line, env={"PYTHONPATH": str(place.site)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["400", "3", "0"]


def test_a_run_with_local_code_is_opened_from_anywhere(place):
    """REG-09: it goes on while the file is there, warns where it changed, and asks where it was moved."""
    parts = place.folder / "my_parts.py"
    parts.write_text(LOCAL.format(name="mine"))
    place.call(
        "run", place.config(model="mine", head='components = ["my_parts.py"]\n', extra="[hooks.checkpoint]")
    )
    run = only_run(place.folder / "runs")
    root = Path("/")
    assert "has changed" not in place.call("evaluate", run, "--set", "dataset.eval.type=random", "--set",
        "dataset.eval.length=4", "--set", "dataset.eval.input_shape=[4]", "--set", "dataset.eval.classes=3",
        cwd=root).stderr(0)  # fmt: skip
    again = ["run", "--resume", run, "--set"]
    job = place.call(*again, "train.steps=4", cwd=root)
    assert record_of(run)["steps"] == 4 and "has changed" not in job.stderr(0)
    parts.write_text(LOCAL.format(name="mine") + "# changed\n")
    text = place.call(*again, "train.steps=6", cwd=root).stderr(0)
    assert text.count(f"warning: {parts} has changed since the run used it for model") == 1
    parts.rename(place.folder / "moved_parts.py")
    text = place.call(*again, "train.steps=8", status=2, cwd=root).stderr(0)
    assert f'"{parts}" cannot be read' in text and "--set 'components=[\"FILE\"]'" in text
    place.call(*again, "train.steps=8", "--set", f'components=["{place.folder}/moved_parts.py"]', cwd=root)
    assert record_of(run)["steps"] == 8


def test_stale_and_doubled_metadata_of_one_package(place):
    """REG-01: of two versions in one folder the higher one is used, with a warning."""
    place.package("acme", "[pipeline.models]\ntoy = gone_module:MLP\n", version="0.9")
    place.package("acme", "[pipeline.models]\ntoy = acme_parts:MLP\n", version="0.10")
    (place.site / "acme_parts.py").write_text("from pipeline.components.models.mlp import MLP\n")
    text = place.call("check", place.config(model="toy")).stderr(0)
    assert "warning: acme is on the path twice with different components: 0.10 in" in text


def test_zip_and_namespace_packages(place):
    """REQ-10: entry points of a zip file on the path, and of a namespace package in two folders."""
    with zipfile.ZipFile(place.folder / "bundle.zip", "w") as bundle:
        bundle.writestr("zipped-1.0.dist-info/entry_points.txt", "[pipeline.models]\nfrom_zip = zipped:MLP\n")
        bundle.writestr("zipped.py", "from pipeline.components.models.mlp import MLP\n")
    for number in (1, 2):
        package = place.folder / f"part{number}" / "acme_space"
        package.mkdir(parents=True)
        (package / f"m{number}.py").write_text("from pipeline.components.models.mlp import MLP\n")
        shutil.rmtree(place.site / f"space{number}-1.0.dist-info", ignore_errors=True)
        place.package(f"space{number}", f"[pipeline.models]\nspace{number} = acme_space.m{number}:MLP\n")
    paths = [place.folder / "bundle.zip", place.folder / "part1", place.folder / "part2", place.site]
    for model in ("from_zip", "space1", "space2"):
        place.call("check", place.config(model=model), paths=paths)
    rows = json.loads(place.call("components", "model", "--json", paths=paths).stdout(0))
    assert [row["problem"] for row in rows if row["name"] in ("from_zip", "space1", "space2")] == [None] * 3


def test_the_config_of_a_run_runs_again_to_the_same_fingerprint(place):
    """CFG-04: with what the file leaves to chance, overrides and references recorded as they were."""
    config = place.config(head='name = "first"\n', extra="[vars]\nrate = 0.5\n[hooks.checkpoint]")
    text = config.read_text().replace("seed = 1\n", "").replace("lr = 0.1", 'lr = "${vars.rate}"')
    config.write_text(text)
    place.call("run", config, "--set", "train.steps=3", "--runs-dir", "one")
    first = only_run(place.folder / "one")
    place.call("run", first / "config.toml", "--runs-dir", "two")
    second = only_run(place.folder / "two")
    assert record_of(second)["fingerprint"] == record_of(first)["fingerprint"]
    assert (second / "config.toml").read_text() == (first / "config.toml").read_text()
    assert record_of(second)["steps"] == 3
