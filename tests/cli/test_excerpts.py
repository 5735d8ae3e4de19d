"""The source line and the caret that an error has on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.config.excerpt import Excerpts
from pipeline.errors import Problem
from tiny_runs import write_tiny


def on_terminal(*words: object, folder: Path) -> str:
    """What ``pipeline WORDS`` shows on a terminal of 60 columns."""
    reader, writer = pty.openpty()
    line = [sys.executable, "-m", "pipeline", *map(str, words)]
    environment = os.environ | {"COLUMNS": "60", "LINES": "24"}
    done = subprocess.run(line, stderr=writer, env=environment, cwd=folder, check=False)
    os.close(writer)
    shown = os.read(reader, 1 << 16).decode().replace("\r\n", "\n")
    os.close(reader)
    assert done.returncode == 2
    return shown


def test_each_fault_of_a_file_has_its_line_and_a_caret_on_a_terminal_alone(tmp_path):
    """Of a file that is extended too; what --set says has no line. A secret in the line is not shown."""
    write_tiny(
        tmp_path, '[optimizer]\n\tlr = "fast" # hunter1\n[hooks]\nema = { token = "hunter2", dcay = 1 }\n'
    )
    base = tmp_path / "base.toml"
    base.write_text(base.read_text().replace("evaluate_every =", "evaluate_evry ="))
    words = ["check", "tiny.toml", "--set", "train.seed=3"]
    shown = on_terminal(*words, folder=tmp_path)
    parts = [line for line in shown.splitlines() if line.startswith((" ", "\t"))]
    assert parts[:2] == ['    evaluate_evry = "…"', "    ^"]
    assert parts[-6:] == [
        '    \tlr = "fast"',
        "    \t^",
        '    ema = { token = "…", dcay = 1 }',
        "            ^",
        '    ema = { token = "…", dcay = 1 }',
        "                         ^",
    ]
    lines = shown.splitlines()
    assert lines[lines.index(parts[1]) + 1] == "base.toml is extended by tiny.toml:1:1"
    assert lines[-1].startswith("--set train.seed: ") and "hunter" not in shown
    line = [sys.executable, "-m", "pipeline", *words]
    plain = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=False).stderr
    assert plain.splitlines() == [line for line in lines if line not in parts]


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("a = 1\r\nlr = 2\r\n", (2, 1), "lr = 2\n^"),
        ('"幅広" = { x = 1 }', (1, 10), '"幅広" = { x = 1 }\n           ^'),
        ('"e\u0301" = { x = 1 }', (1, 10), '"e\u0301" = { x = 1 }\n        ^'),
        ("a = {\tx = 1 }", (1, 7), "a = {\tx = 1 }\n     \t^"),
        (f"a = [{'1, ' * 99}2, 3]", (1, 303), "…1, 1, 1, 1, 2, 3]\n             ^"),
        (f"lr = [{'1, ' * 99}2]", (1, 1), "lr = [1, 1, 1, 1, 1, 1, 1…\n^"),
        ("a = '''\nsecret''', b = 1", (2, 12), ""),
        ("a = ['''\nsecret''', 12]", (2, 12), '"…", 12]\n     ^'),
        ("a = { b = 'said', c = 'secret' }", (1, 7), "a = { b = 'said', c = \"…\"…\n      ^"),
        ("key = secret", (1, 7), "key = s…\n      ^"),
        ('key = "secret\nx = 1', (1, 14), 'key = "…"\n         ^'),
        ('key = """\nsecret \\q', (2, 8), ""),
        ("key = [\nsecret", (2, 7), ""),
        ("a = 1\n", (9, 1), ""),
    ],
    ids=[
        *("crlf", "wide", "combining", "tab", "long before", "long behind", "damaged", "lines", "said"),
        *("bare", "unclosed", "inside", "end", "gone"),
    ],
)  # fmt: skip
def test_the_caret_stands_below_the_column(tmp_path, text, place, expected):
    path = tmp_path / "c.toml"
    path.write_bytes(text.encode())
    problem = Problem(f"{path}:{place[0]}:{place[1]}", "", "said")
    shown = Excerpts(30).of(problem)
    assert shown == "\n".join(f"    {line}" for line in expected.splitlines())


@pytest.mark.parametrize("place", ["--set", "--unset", "none.toml", "none.toml:1:1", ":1:1"])
def test_what_has_no_line_has_none(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    assert Excerpts(80).of(Problem(place, "a", "b")) == ""
