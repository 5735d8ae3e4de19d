"""The shape of the code, held by tests: who imports whom, what is never done, how large things get."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pipeline"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAX_FILE_LINES = 400
TABLES = {"tests/config/test_faulty_configs.py"}  # a specification by rows, looked up rather than read
MAX_FUNCTION_LINES = 60


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imported_packages(tree: ast.AST) -> set[str]:
    """The top-level packages that some import statement names, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def dotted(node: ast.expr) -> str:
    """``torch.load`` for the expression of that spelling, empty for what is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def unsafe_loads(tree: ast.AST) -> list[int]:
    """The lines of calls of ``torch.load`` that may run what a file says."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and dotted(node.func) == "torch.load"
        and not any(
            keyword.arg == "weights_only"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is True
            for keyword in node.keywords
        )
    ]


def swallowing_handlers(tree: ast.AST) -> list[int]:
    """The lines of broad exception handlers that do nothing."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or dotted(node.type) in {"Exception", "BaseException"})
        and all(
            isinstance(statement, ast.Pass | ast.Continue)
            or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            for statement in node.body
        )
    ]


def long_functions(tree: ast.AST) -> list[str]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = [(function.name, (function.end_lineno or 0) - function.lineno + 1) for function in functions]
    return [f"{name} ({length})" for name, length in lengths if length > MAX_FUNCTION_LINES]


def test_the_arrows_between_the_parts():
    """In a process of its own, since import-linter disables the loggers of the one it runs in."""
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_only_discovery_reads_entry_points():
    readers = [name_of(path) for path in SOURCES if "entrypoints" in imported_packages(parse(path))]
    assert readers == ["pipeline/registry/discovery.py"]


def test_nothing_is_ever_unpickled():
    unsafe = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    assert [name_of(path) for path in SOURCES if unsafe & imported_packages(parse(path))] == []
    assert {name_of(path): lines for path in SOURCES if (lines := unsafe_loads(parse(path)))} == {}


def test_no_failure_is_swallowed():
    assert {name_of(path): lines for path in SOURCES if (lines := swallowing_handlers(parse(path)))} == {}


@pytest.mark.parametrize("folder", ["pipeline", "tests", "examples", "benchmarks"])
def test_files_can_be_read_at_a_sitting(folder):
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    long = {name: length for name, length in lengths.items() if length > MAX_FILE_LINES}
    assert long.keys() - TABLES == set(), long


def test_functions_can_be_read_at_a_glance():
    assert {name_of(path): long for path in SOURCES if (long := long_functions(parse(path)))} == {}


def test_the_checks_see_what_they_look_for():
    source = """
try:
    torch.load(f)
    torch.load(f, weights_only=False)
    torch.load(f, weights_only=True)
except Exception:
    pass
try:
    pass
except KeyError:
    pass
try:
    pass
except:
    "nothing"
"""
    tree = ast.parse(source)
    assert unsafe_loads(tree) == [3, 4]
    assert swallowing_handlers(tree) == [6, 14]
    lines = "\n".join(["def long():"] + ["    x = 1"] * MAX_FUNCTION_LINES)
    assert long_functions(ast.parse(lines)) == [f"long ({MAX_FUNCTION_LINES + 1})"]
    imports = "import a.b\ndef f():\n    from c.d import e\nfrom . import f"
    assert imported_packages(ast.parse(imports)) == {"a", "c"}
