"""One self-contained HTML page about some runs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline.cli.curves import curves_of
from pipeline.cli.lineage import Node, edge_and_title, forest
from pipeline.cli.results import text_of
from pipeline.cli.runs_table import runs_table
from pipeline.errors import RunError
from pipeline.runs.listing import RunRow
from pipeline.runs.metric_log import Row, read_rows
from pipeline.runs.record import read

_PARTS = ("uplot.min.css", "report.css", "uplot.min.js", "report.js")
_FILES = ("config.toml", "run.json", "metrics.jsonl", "code.patch", "logs")


def page(rows: Sequence[RunRow], beside: Path, *, refresh: float | None = None) -> str:
    """The page.

    Args:
        beside: the folder that the links to files start from.
        refresh: seconds after which the page asks for its data again; None: never.
    """
    folder = files("pipeline.cli").joinpath("page")
    text = folder.joinpath("report.html").read_text("utf-8")
    for name in _PARTS:
        text = text.replace(f"{{{{{name}}}}}", folder.joinpath(name).read_text("utf-8"))
    return text.replace("{{data}}", document(rows, beside, refresh=refresh), 1)


def document(rows: Sequence[RunRow], beside: Path, *, refresh: float | None = None) -> str:
    """What the page shows, as JSON that can stand inside a script element."""
    logs, problems = [], {}
    for row in rows:
        log, problem = _log(row)
        logs.append(log)
        if problem:
            problems[row.folder.name] = problem
    headers, lines = runs_table(rows, for_people=True)
    data = {
        "made": datetime.now().astimezone().isoformat(timespec="seconds"),
        "refresh": refresh,
        "headers": headers,
        "runs": [[text_of(value) for value in line] for line in lines],
        "statuses": [row.status or "broken" for row in rows],
        "files": [_links(row, beside) for row in rows],
        "problems": problems,
        "curves": {name: {"x": one.steps, "y": one.values} for name, one in curves_of(logs).items()},
        "forest": [_tree(root) for root in forest(rows)],
        "environment": _environment(rows),
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _log(row: RunRow) -> tuple[list[Row], str]:
    try:
        return read_rows(row.folder.metrics), row.problem
    except RunError as error:
        return [], str(error)


def _links(row: RunRow, beside: Path) -> dict[str, str]:
    """Each file of the run, and its address seen from the page."""
    found = [name for name in _FILES if (row.folder.path / name).exists()]
    base = Path(os.path.relpath(row.folder.path.absolute(), beside.absolute()))
    return {name: (base / name).as_posix() for name in found}


def _tree(node: Node) -> dict[str, Any]:
    edge, title = edge_and_title(node)
    return {"title": title, "edge": edge, "children": [_tree(child) for child in node.children]}


def _environment(rows: Sequence[RunRow]) -> dict[str, Any]:
    """Where and with what each run ran; what cannot be read stays out."""
    facts = {}
    for row in rows:
        try:
            record = read(row.folder)
        except RunError:
            continue  # the table of runs says what is wrong with it
        git = {"commit": record.git.commit[:12], "uncommitted": record.git.dirty} if record.git else {}
        facts[row.folder.name] = {
            "host": record.host,
            "device": record.device,
            "ranks": record.world_size,
            "threads": record.threads,
            **record.versions,
            **git,
            "command": " ".join(record.command),
        }
    headers = list(dict.fromkeys(key for one in facts.values() for key in one))
    lines = [[name, *(text_of(one.get(key)) for key in headers)] for name, one in facts.items()]
    return {"headers": ["run", *headers], "rows": lines}
