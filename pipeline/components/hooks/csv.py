"""A table of the run's values, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from pipeline.api.run import Run
from pipeline.components.hooks.tracker import Tracker


class CSV(Tracker):
    """Writes metrics.csv in the run folder: a row a step that measured something, a column a name.

    A name that comes up later adds a column, empty in the rows before. A resumed run goes on after
    the rows up to its checkpoint.
    """

    def open(self, run: Run) -> None:
        self._path = run.folder / "metrics.csv"
        self._columns = ["step", "epoch"]
        self._last: dict[str, str] = {}
        rows: list[dict[str, str]] = []
        if run.step and self._path.exists():
            with self._path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                rows = [row for row in reader if int(row["step"]) <= run.step]
                self._columns = list(reader.fieldnames or self._columns)
        self._rewrite(rows)

    def write(self, run: Run, step: int, values: Mapping[str, float]) -> None:
        row = {
            "step": str(step),
            "epoch": str(run.epoch),
            **{name: repr(one) for name, one in values.items()},
        }
        again = self._last.get("step") == row["step"]
        self._last = self._last | row if again else row
        new = [name for name in values if name not in self._columns]
        if new or again:
            rows = self._read()
            self._columns += new
            self._rewrite([*(rows[:-1] if again else rows), self._last])
            return
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write(self._text([self._last]))

    def close(self, run: Run, error: BaseException | None) -> None:
        """Nothing is open between two rows."""

    def _read(self) -> list[dict[str, str]]:
        with self._path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        whole = Path(f"{self._path}.new")
        header = dict(zip(self._columns, self._columns, strict=True))
        whole.write_text(self._text([header, *rows]), "utf-8", newline="")
        whole.replace(self._path)

    def _text(self, rows: list[dict[str, str]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self._columns, restval="", lineterminator="\n").writerows(rows)
        return text.getvalue()
