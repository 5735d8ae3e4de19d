"""Periods with units: "2 epochs", "500 steps", "never", parsed once and never confused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_COUNT = "[0-9]+(?:_[0-9]+)*"
_PATTERN = re.compile(rf"\s*({_COUNT})\s*(epoch|step)s?\s*")
_LONGEST = 18  # digits, so that the count fits in 64 bits
EXPECTED = '"N epochs", "N steps" or "never"'


@dataclass(frozen=True)
class Period:
    """How often something happens, in epochs or in optimizer steps; ``count`` 0 is never."""

    count: int
    unit: Literal["epoch", "step"]

    @classmethod
    def parse(cls, text: str) -> Period:
        """Read ``"1 epoch"``, ``"50 steps"`` or ``"never"``.

        Raises:
            ValueError: if the text is none of these, or the count is 0.
        """
        if text.strip() == "never":
            return cls(0, "step")
        match = _PATTERN.fullmatch(text)
        if match is None or len(match[1]) > _LONGEST or (count := int(match[1])) < 1:
            raise ValueError(f"{text!r} is no period; expected {EXPECTED}")
        return cls(count, "epoch" if match[2] == "epoch" else "step")

    def __str__(self) -> str:
        if not self.count:
            return "never"
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"

    def due(self, *, step: int, epochs_done: int, at_epoch_end: bool) -> bool:
        """Whether it is due after ``step`` optimizer steps, of which ``epochs_done`` whole epochs."""
        if not self.count:
            return False
        if self.unit == "step":
            return step % self.count == 0
        return at_epoch_end and epochs_done % self.count == 0

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        pattern = rf"^\s*({_COUNT}\s*(epoch|step)s?|never)\s*$"
        return {"type": "string", "pattern": pattern, "description": f"A period: {EXPECTED}."}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        from pydantic_core import core_schema

        def read(value: Any) -> Period:
            if isinstance(value, Period):
                return value
            if isinstance(value, str):
                return cls.parse(value)
            raise ValueError(f"{value!r} is no period; expected {EXPECTED}")

        return core_schema.no_info_plain_validator_function(
            read, serialization=core_schema.to_string_ser_schema()
        )
