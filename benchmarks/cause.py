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
    others, that they have lost it, may come later. One whose exit status is that of an exception may
    have told it before it had a rank.
    """
    root = _ROOT.search(output)
    errors = _errors(output, rf"\[rank{root[1]}\]: " if root else r"(?:\[rank\d+\]: )?")
    if root and root[2] == "1" and not errors:
        errors = _errors(output, "")
    if errors:
        return errors[-1]
    if root:
        return f"rank {root[1]} ended with {root[2]} {root[3] or ''}".rstrip()
    return [line.strip() for line in output.splitlines() if re.search(r"\w", line)][-1]


def _errors(output: str, prefix: str) -> list[str]:
    return re.findall(rf"^{prefix}({_ERROR})$", output, re.MULTILINE)
