"""The pages say what is so: their examples run, their tables equal the code, their links lead somewhere."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from annotated_types import Ge, Gt

import pipeline
from pipeline.api import register as register_module
from pipeline.api.duration import format_duration
from pipeline.api.hook import Hook
from pipeline.api.kinds import RULES, Kind
from pipeline.config.functions import FUNCTIONS
from pipeline.config.outline import SETTINGS, TOP_LEVEL
from pipeline.config.resume import _RULES
from pipeline.registry.registry import Registry

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
COMPONENTS = ROOT / "docs" / "components.md"
CONFIG = ROOT / "docs" / "config.md"
SOAK = ROOT / "docs" / "soak.md"  # a record of the commit that it names, whose tests may have gone since
PROMISES = ROOT / "docs" / "promises.md"
RELIABILITY = ROOT / "docs" / "reliability.md"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, with the comment on the line before it."""

    page: Path
    line: int
    language: str
    note: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the block is said to be."""
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(*languages: str, pages: list[Path] = PAGES) -> list[Block]:
    found = []
    for page in pages:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("language")) + 1
            found.append(Block(page, line, match["language"], match["note"] or "", match["text"]))
    return [block for block in found if block.language in languages]


def complete_configs(*pages: Path) -> list[Block]:
    """The TOML blocks that are said to be whole configs: files, but not a package's own."""
    toml = blocks("toml", pages=list(pages) or PAGES)
    return [block for block in toml if block.file and not block.file.endswith("pyproject.toml")]


@pytest.fixture(autouse=True)
def _clean_process(monkeypatch):
    """Modules, registrations and path entries of a test end with it."""
    modules, path = set(sys.modules), list(sys.path)
    monkeypatch.setattr(register_module, "_registrations", {})
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if "pytest-" in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
    from pipeline.registry.local import load_file

    load_file.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """All files of all pages, as a reader would write them; the package is installed."""
    for block in blocks("python", "toml", "text"):
        if block.file:
            path = tmp_path / block.page.stem / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
    install(tmp_path / "components" / "acme-waves", tmp_path / "site", monkeypatch)
    return tmp_path


def install(package: Path, site: Path, monkeypatch) -> None:
    """What pip does with the example's package: its modules and its entry points on the path."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    shutil.copytree(package / "acme_waves", site / "acme_waves")
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()


@pytest.mark.parametrize("block", complete_configs(), ids=str)
def test_a_config_that_is_shown_whole_is_valid(block, folder):
    config = pipeline.load_config(folder / block.page.stem / block.file)
    assert not config.warnings


def trained(folder: Path, config: str):
    """The record of one epoch of an example."""
    short = ["train.epochs=1", "distributed.threads=1"]  # the tests share the cores with each other
    loaded = pipeline.load_config(folder / "components" / config, overrides=short)
    return pipeline.run(loaded, runs_dir=folder / "runs")


@pytest.mark.parametrize("config", ["tiny.toml", "waves.toml", "sines.toml"])
def test_the_first_examples_train(config, folder):
    record = trained(folder, config)
    assert record.status == "completed"
    assert record.metrics["eval/loss"] < 3


def test_the_eight_kinds_work_together(folder):
    record = trained(folder, "all.toml")
    assert record.metrics["weight_norm"] > 0
    assert record.metrics["eval/least_margin"] < record.metrics["eval/margin"]
    assert {part["key"] for part in record.components} >= {"model.encoder", "dataset.train.source"}
    local = {part["kind"] for part in record.components if part["file_hash"]}
    assert local == {str(kind) for kind in Kind}


def test_no_example_is_left_out():
    named = {"tiny.toml", "waves.toml", "sines.toml", "all.toml"}
    assert {block.file for block in complete_configs(COMPONENTS)} == named


def test_a_model_of_its_own_validates_the_table(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(pipeline.ConfigError, match="must be below high"):
        pipeline.load_config(
            folder / "components" / "tiny.toml",
            overrides=['components=["components/band.py"]', "model={type='band',low=3,high=2}"],
        )


def test_the_table_of_every_annotation_fits(folder):
    (block,) = [block for block in blocks("toml") if block.note == "table of everything.py"]
    registry = Registry.discover()
    assert not registry.load_local([folder / "components" / "everything.py"])
    table = tomllib.loads(block.text)["dataset"]["train"]
    checked = registry.check(Kind.DATASET, table.pop("type"), table, folders={"root": folder})
    assert not checked.faults
    assert set(table) == set(checked.arguments)  # none is left out
    assert checked.arguments["root"] == folder / "data" / "train"


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_toml_is_toml(block):
    tomllib.loads(block.text)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_is_python(block):
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = _BLOCK.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", linked.read_text()), re.MULTILINE)
            assert anchor in {_anchor(heading) for heading in headings}, f"{page.name}: {target}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")


@pytest.mark.parametrize("page", [page for page in PAGES if page != SOAK], ids=lambda page: page.name)
def test_named_tests_exist(page):
    for name in re.findall(r"`(tests/[\w/.]+\.py(?:::\w+)?)`", page.read_text()):
        path, _, function = name.partition("::")
        assert (ROOT / path).is_file(), name
        tree = ast.parse((ROOT / path).read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not function or function in functions, name


def test_every_promise_names_its_tests():
    promises = re.split(r"^## ", PROMISES.read_text(), flags=re.MULTILINE)[1:]
    numbered = [text for text in promises if re.match(r"[1-7]\. ", text)]
    assert len(numbered) == 7
    for text in numbered:
        title = text.splitlines()[0]
        assert re.search(r"`tests/[\w/.]+::\w+`", text), title
        for part in ("**Means.**", "**Kept by.**", "**Limits.**", "**Check it.**", "**Held by.**"):
            assert part in text, f"{title}: {part}"


def test_every_fault_names_its_test_and_its_tries():
    rows = [line for line in RELIABILITY.read_text().splitlines() if line.startswith("| ")]
    faults = [row for row in rows if not row.startswith(("| fault |", "|---"))]
    assert faults
    for row in faults:
        fault, happens, test, tries = (cell.strip() for cell in row.strip("|").split(" | "))
        assert fault and happens, row
        assert re.fullmatch(r"`tests/[\w/.]+::\w+`(, `tests/[\w/.]+::\w+`)*", test), row
        assert re.fullmatch(r"\d+(, \d+)?", tries), row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_modules_and_files_exist(page):
    for name in re.findall(r"`(pipeline/[\w/]+\.(?:py|gz|md))`", page.read_text()):
        assert (ROOT / name).is_file(), name


def test_the_page_shows_the_loop_of_the_hook_class():
    (block,) = [block for block in blocks("") if block.note == "the loop of pipeline.Hook"]
    loop = (Hook.__doc__ or "").partition("::\n\n")[2].partition("\n\n    Hooks run")[0]
    assert [line.strip() for line in block.text.splitlines()] == [line.strip() for line in loop.splitlines()]


def rows_under(page: Path, heading: str) -> list[list[str]]:
    """The first table below a heading, without its head."""
    (section,) = [
        part
        for part in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE)
        if part.partition("\n")[0].strip("`") == heading
    ]
    lines = section.split("\n|", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [
        [cell.strip() for cell in line.replace("\\|", "\0").strip().strip("|").split("|")] for line in lines
    ]


@pytest.mark.parametrize("section", SETTINGS)
def test_the_tables_of_settings_equal_the_code(section):
    hints = get_type_hints(SETTINGS[section], include_extras=True)
    expected = [
        [f"`{field.name}`", type_text(hints[field.name]), default_text(field)]
        for field in dataclasses.fields(SETTINGS[section])
    ]
    rows = rows_under(CONFIG, f"[{section}]")
    assert [row[:3] for row in rows] == expected
    assert all(row[3] for row in rows)


def type_text(annotation: Any) -> str:
    """How the page words the type of a setting."""
    words = {bool: "boolean", timedelta: "duration", int: "integer", float: "number", str: "string"}
    bounds = {Ge: ("ge", "of at least"), Gt: ("gt", "above")}
    arguments = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        bound = annotation.__metadata__[0]
        name, text = bounds[type(bound)]
        return f"{words[annotation.__origin__]} {text} {getattr(bound, name)}"
    if get_origin(annotation) is Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if get_origin(annotation) is tuple:
        return f"array of {type_text(arguments[0])}"
    if arguments:
        return ", ".join(type_text(member) for member in arguments if member is not type(None))
    return words.get(annotation, annotation.__name__.lower())


def default_text(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    value = field.default
    if value is None:
        return "-"
    if isinstance(value, timedelta):
        return f'`"{format_duration(value)}"`'
    if isinstance(value, bool | int | float):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
    return f'`"{value}"`'


def test_the_table_of_top_level_keys_equals_the_code():
    assert [re.findall(r"[a-z]+", row[0])[0] for row in rows_under(CONFIG, "Top level")] == list(TOP_LEVEL)


def test_the_table_of_engine_keys_equals_the_code():
    rows = {(row[0].strip("`"), row[1].strip("`")) for row in rows_under(CONFIG, "Engine keys")}
    assert rows == {(str(kind), key) for kind, rules in RULES.items() for key in rules.engine_keys}


def test_the_table_of_changed_keys_equals_the_code():
    rows = [tuple(cell.strip("`") for cell in row) for row in rows_under(CONFIG, "A changed key on resume")]
    assert rows == [tuple(rule) for rule in _RULES]


def test_the_functions_of_interpolation_are_all_there():
    shown = {re.match(r"`\$\{([\w.]+):", row[0])[1] for row in rows_under(CONFIG, "Interpolation")[2:]}
    assert shown == set(FUNCTIONS)


def test_the_kinds_on_the_page_are_those_of_the_code():
    rows = rows_under(COMPONENTS, "The eight kinds")
    assert [(row[0], row[1].strip("`")) for row in rows] == [
        (str(kind), rules.group) for kind, rules in RULES.items()
    ]
    by_name = {row[0]: re.findall(r"`(\w+)`", row[2].partition("by name")[2]) for row in rows}
    assert by_name == {str(kind): list(rules.by_name) for kind, rules in RULES.items()}
