"""The public functions: they raise the errors, print nothing and never exit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass
