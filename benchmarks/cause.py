"""What the output of a failed side says of the cause."""

from __future__ import annotations

import re

_ERROR = r"[\w.]*(?:Error|Exception)(?:: .+)?"  # torchrun's own has a colon and nothing after it: no match
_ROOT = re.compile(
    r"^Root Cause.*?^ +rank +: (\d+).*?^ +exitcode +: (-?\d+) \(pid: \d+\) *(\(\w+\))?",
    re.MULTILINE | re.DOTALL,
)


def cause_in(output: str) -> str:
    """One line: the last error that it shows, or else how it ended.

    Of several ranks it is that of the one which torchrun says has failed first: the errors of the
    others, that they have lost it, may come later.
    """
    root = _ROOT.search(output)
    rank = root[1] if root else r"\d+"
    errors: list[str] = re.findall(rf"^(?:\[rank{rank}\]: )?({_ERROR})$", output, re.MULTILINE)
    if errors:
        return errors[-1]
    if root:
        return f"rank {rank} ended with {root[2]} {root[3] or ''}".rstrip()
    return [line.strip() for line in output.splitlines() if re.search(r"\w", line)][-1]
