"""What all trackers have in common, and the csv hook: rows, columns, resumes, and trackers that fail."""

from __future__ import annotations

import csv
import logging
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pipeline.api.run import Run
from pipeline.components.hooks.csv import CSV
from pipeline.components.hooks.mlflow import MLflow
from pipeline.components.hooks.tracker import Tracker
from pipeline.components.hooks.wandb import WandB
from pipeline.errors import ComponentError


def play(hook: Tracker, run: Any, values: list[dict[str, float]]) -> None:
    for metrics in values:
        run.advance(**metrics)
        hook.on_step_end(run)


def table(run: Any) -> list[dict[str, str]]:
    with (run.folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_a_step_and_a_column_a_name(make_run: Callable[..., Any]) -> None:
    hook, run = CSV(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"a": 0.1}, {}, {"a": math.nan, 'b/,"c': 2.0}, {"a": math.inf}])
    assert table(run) == [
        {"step": "1", "epoch": "0", "a": "0.1", 'b/,"c': ""},
        {"step": "3", "epoch": "0", "a": "nan", 'b/,"c': "2.0"},
        {"step": "4", "epoch": "0", "a": "inf", 'b/,"c': ""},
    ]


def test_what_is_measured_at_the_end_joins_the_row_of_its_step(make_run: Callable[..., Any]) -> None:
    hook, run = CSV(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"a": 1.0}])
    run.metrics |= {"a": 1.5, "end": 3.0}
    run.metrics_steps["end"] = 1
    hook.on_run_end(run)
    assert table(run) == [{"step": "1", "epoch": "0", "a": "1.0", "end": "3.0"}]


@pytest.mark.parametrize("torn", ["", "4,0,7", "4,0,7.0,1\n5"])
def test_a_resumed_run_goes_on_after_its_checkpoint(make_run: Callable[..., Any], torn: str) -> None:
    hook, run = CSV(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"a": 4.0}, {"a": 3.0, "b": 1.0}, {"a": 9.0}])  # killed past the checkpoint of step 2
    with (run.folder / "metrics.csv").open("a") as file:
        file.write(torn)
    resumed = make_run(step=2, metrics={"a": 3.0, "b": 1.0}, metrics_steps={"a": 2, "b": 2})
    hook = CSV()
    hook.on_run_start(resumed)
    play(hook, resumed, [{"a": 2.0}])
    hook.on_run_end(resumed)
    assert [(row["step"], row["a"], row["b"]) for row in table(run)] == [
        ("1", "4.0", ""), ("2", "3.0", "1.0"), ("3", "2.0", "")
    ]  # fmt: skip


class Broken(Tracker):
    """Fails where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.called = where, list[str]()

    def _do(self, what: str) -> None:
        self.called.append(what)
        if what == self.where:
            raise OSError("the server is gone")

    def open(self, run: Run) -> None:
        self._do("open")

    def write(self, run: Run, step: int, values: Mapping[str, float]) -> None:
        self._do("write")

    def close(self, run: Run, error: BaseException | None) -> None:
        self._do("close")


@pytest.mark.parametrize(
    ("where", "called"),
    [("open", ["open"]), ("write", ["open", "write"]), ("close", ["open", "write", "write", "close"])],
)
def test_a_tracker_that_fails_is_warned_of_once_and_left(
    make_run: Callable[..., Any], caplog: pytest.LogCaptureFixture, where: str, called: list[str]
) -> None:
    hook, run = Broken(where), make_run()
    with caplog.at_level(logging.WARNING):
        hook.on_run_start(run)
        play(hook, run, [{"a": 1.0}, {"a": 2.0}])
        hook.on_run_end(run)
    assert hook.called == called
    assert [record.getMessage() for record in caplog.records] == [
        "hook Broken: OSError: the server is gone; the run goes on without it, metrics.jsonl has every value"
    ]


@pytest.mark.parametrize(("hook", "package"), [(MLflow, "mlflow"), (WandB, "wandb")])
def test_an_absent_package_names_the_extra(
    make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, hook: type[Tracker], package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ComponentError, match=rf"pip install 'pipeline-ddp\[{package}\]'"):
        hook().on_run_start(make_run())
