"""``pytest --soak``: full counts, no skips, and a page that says what was run.

Without it the suite keeps within minutes: tests marked ``soak`` are left out, and of a parametrised test
that is marked ``few``, or is in tests/distributed, whose cases start processes, three cases are run:
first, middle and last. A test that is named on the command line is run whole.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

PROCESSES = "distributed"  # the folder of tests whose cases start processes
CASES = 3
COMMIT = pytest.StashKey[str]()
"""What is tested, taken before any test can change it; there where a page is to be written."""
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="full counts; a skip fails; writes docs/soak.md")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: run under --soak alone, for it takes long")
    config.addinivalue_line("markers", "few: of its cases three are run, and all under --soak")
    is_worker = hasattr(config, "workerinput")  # xdist's workers end with a summary of their own
    if config.getoption("--soak") and not config.option.collectonly and not is_worker:
        config.stash[COMMIT] = _commit(config.rootpath)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak") or config.option.keyword or any("::" in one for one in config.args):
        return  # what is named is run
    cases = Counter(_function(item) for item in items)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    seen: Counter[str] = Counter()
    for item in items:
        function = _function(item)
        number, seen[function] = seen[function], seen[function] + 1
        has_few = item.path.parent.name == PROCESSES or item.get_closest_marker("few") is not None
        chosen = not has_few or number in _spread(cases[function])
        (kept if chosen and item.get_closest_marker("soak") is None else left_out).append(item)
    if left_out:
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _spread(number: int) -> set[int]:
    """Positions of the cases that are run of so many."""
    return {position * (number - 1) // (CASES - 1) for position in range(CASES)}


@pytest.fixture
def count(request: pytest.FixtureRequest, record_property):
    """``count(small, full)``: how often to repeat something, here and under --soak."""

    def choose(small: int, full: int) -> int:
        chosen = full if request.config.getoption("--soak") else small
        record_property("count", chosen)
        return chosen

    return choose


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if COMMIT not in config.stash:
        return
    page = config.rootpath / "docs" / "soak.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(_page(terminalreporter.stats, config.stash[COMMIT]))
    terminalreporter.write_line(f"written: {page.relative_to(config.rootpath)}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--soak") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _page(stats: dict[str, list], commit: str) -> str:
    """The page, from pytest's reports by outcome."""
    numbers = Counter({outcome: len(stats.get(outcome, [])) for outcome in OUTCOMES})
    lines = [
        "# The last soak",
        "",
        "Written by `make soak`: the whole suite with its full counts; a skipped test counts as a failure.",
        "",
        f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- commit: {commit}",
        f"- tests: {', '.join(f'{numbers[outcome]} {outcome}' for outcome in OUTCOMES)}",
        f"- examples of each property: {settings.default.max_examples}",
        "",
        "| repeated test | count |",
        "|---|---|",
    ]
    for report in stats.get("passed", []) + stats.get("failed", []):
        counts = [str(value) for name, value in report.user_properties if name == "count"]
        if report.when == "call" and counts:
            lines.append(f"| `{report.nodeid}` | {', '.join(counts)} |")
    lines += ["", "## Failures", ""]
    bad = [report for outcome in ("failed", "error", "skipped") for report in stats.get(outcome, [])]
    lines += [f"- {report.outcome}: `{report.nodeid}`" for report in bad] or ["None."]
    return "\n".join(lines) + "\n"


def _commit(root: Path) -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = " with changes not committed" if git("status", "--porcelain") else ""
    return (git("rev-parse", "--short=12", "HEAD") or "none yet") + changed
