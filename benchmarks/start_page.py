"""The page of how long commands take to answer."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measured import here_and_now
from benchmarks.start import Answer

HEAD = """\
# How long commands take to answer

Written by `python -m benchmarks start`: commands that train nothing, each in a process of its own, from its
start to its end, with the files of Python compiled before.
"""


def start_page(answers: Sequence[Answer]) -> str:
    """What starting costs, as Markdown."""
    lines = [
        HEAD,
        *here_and_now().lines(),
        "",
        "| `pipeline` | times | median, s | least, s | most, s |",
        "|---|---|---|---|---|",
        *(
            f"| {one.command} | {len(one.seconds)} | {one.median:.3f} | {min(one.seconds):.3f} "
            f"| {max(one.seconds):.3f} |"
            for one in answers
        ),
    ]
    return "\n".join(lines) + "\n"
