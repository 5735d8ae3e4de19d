"""``pytest --soak``: full counts, no skips, and a page that says what was run."""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="full counts; a skip fails; writes docs/soak.md")


@pytest.fixture
def count(request: pytest.FixtureRequest, record_property):
    """``count(small, full)``: how often to repeat something, here and under --soak."""

    def choose(small: int, full: int) -> int:
        chosen = full if request.config.getoption("--soak") else small
        record_property("count", chosen)
        return chosen

    return choose


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if not config.getoption("--soak"):
        return
    page = config.rootpath / "docs" / "soak.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(_page(terminalreporter.stats, _commit(config.rootpath)))
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
