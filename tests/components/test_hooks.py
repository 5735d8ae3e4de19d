"""The built-in hooks, played through by hand."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import nn

from pipeline.api.hook import CheckpointPolicy
from pipeline.api.period import Period
from pipeline.components.hooks import progress
from pipeline.components.hooks.checkpoint import Checkpoint
from pipeline.components.hooks.early_stopping import EarlyStopping
from pipeline.components.hooks.ema import EMA
from pipeline.components.hooks.lr_monitor import LRMonitor
from pipeline.components.hooks.nan_guard import NanGuard
from pipeline.components.hooks.profiler import Profiler
from pipeline.components.hooks.progress import Progress
from pipeline.components.hooks.throughput import Throughput
from pipeline.errors import RunError

MakeRun = Callable[..., Any]


def test_checkpoint_only_sets_the_policy() -> None:
    hook = Checkpoint(Period(5, "step"), keep_last=3, monitor="eval/loss", on_disk_full="warn")
    assert hook.checkpoint_policy == CheckpointPolicy(Period(5, "step"), 3, 1, "eval/loss", "min", "warn")


def evaluate(hook: EarlyStopping, run: Any, value: float) -> None:
    run.advance(eval__loss=value)
    hook.on_evaluate_end(run)


def test_early_stopping_waits_for_improvement(make_run: MakeRun) -> None:
    hook, run = EarlyStopping("eval/loss", patience=2, min_delta=0.1), make_run()
    for value in (1.0, 0.95, 0.8, 0.75):  # 0.95 and 0.75 are too little better
        evaluate(hook, run, value)
    assert run.stopped == []
    evaluate(hook, run, float("nan"))
    assert run.stopped == ["early stopping: eval/loss has not improved 2 times, best 0.8"]


def test_early_stopping_never_takes_nan_for_the_best(make_run: MakeRun) -> None:
    hook, run = EarlyStopping("eval/loss", mode="max", patience=2), make_run()
    for value in (float("nan"), 0.1, float("nan"), 0.2, 0.2):
        evaluate(hook, run, value)
    assert run.stopped == []
    evaluate(hook, run, 0.1)
    assert len(run.stopped) == 1


def test_early_stopping_resumes_its_count(make_run: MakeRun) -> None:
    before, run = EarlyStopping("eval/loss", patience=2), make_run()
    evaluate(before, run, 1.0)
    evaluate(before, run, 2.0)
    after = EarlyStopping("eval/loss", patience=2)
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    evaluate(after, run, 1.5)
    assert len(run.stopped) == 1


def test_early_stopping_counts_a_measurement_once(make_run: MakeRun) -> None:
    hook, run = EarlyStopping("train/loss", patience=1), make_run()
    run.advance(train__loss=1.0)
    for _ in range(3):  # evaluations between two log points
        hook.on_evaluate_end(run)
        run.advance()
    assert run.stopped == []


def test_early_stopping_names_the_metrics_there_are(make_run: MakeRun) -> None:
    hook, run = EarlyStopping("eval/acuracy"), make_run()
    with pytest.raises(RunError, match=r"'eval/acuracy' is no metric of this run; expected one of eval/loss"):
        evaluate(hook, run, 1.0)


def drift(run: Any) -> None:
    """One step that moves every parameter by a whole number, which averages must follow."""
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.add_(run.step + 1.0)
    run.advance()


def test_ema_follows_the_parameters(make_run: MakeRun) -> None:
    run, hook = make_run(nn.Linear(3, 2).double()), EMA(decay=0.75, every=Period(2, "step"))
    hook.on_run_start(run)
    expected = run.model.weight.detach().clone()
    for _ in range(5):
        drift(run)
        if run.step % 2 == 0:
            expected = 0.75 * expected + 0.25 * run.model.weight.detach()
        hook.on_step_end(run)
        hook.on_epoch_end(run)  # by steps, so an epoch's end adds nothing
    torch.testing.assert_close(hook.state_dict()["averages"]["weight"], expected)


def test_ema_by_epochs(make_run: MakeRun) -> None:
    run, hook = make_run(), EMA(decay=0.0, every=Period(2, "epoch"))
    hook.on_run_start(run)
    start = run.model.weight.detach().clone()
    for epoch in (0, 1):
        run.epoch = epoch
        assert torch.equal(hook.state_dict()["averages"]["weight"], start)
        drift(run)
        hook.on_step_end(run)
        hook.on_epoch_end(run)
    assert torch.equal(hook.state_dict()["averages"]["weight"], run.model.weight)


def test_ema_resumes_exactly(make_run: MakeRun, tmp_path: Path) -> None:
    run, hook = make_run(), EMA(decay=0.9)
    hook.on_run_start(run)
    drift(run)
    hook.on_step_end(run)
    torch.save(hook.state_dict(), tmp_path / "state.pt")
    resumed = EMA(decay=0.9)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    resumed.on_run_start(run)
    drift(run)
    for each in (hook, resumed):
        each.on_step_end(run)
    assert torch.equal(hook.state_dict()["averages"]["weight"], resumed.state_dict()["averages"]["weight"])


def test_ema_refuses_the_averages_of_another_model(make_run: MakeRun) -> None:
    hook = EMA()
    hook.load_state_dict({"averages": {"weight": torch.zeros(2, 3), "scale": torch.zeros(1)}})
    with pytest.raises(RunError, match="only one has bias, scale"):
        hook.on_run_start(make_run())


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(2)


def test_ema_file_loads_strictly(make_run: MakeRun) -> None:
    run, hook = make_run(_Tied()), EMA(decay=0.5)
    hook.on_run_start(run)
    drift(run)
    hook.on_step_end(run)
    hook.on_run_end(run)
    saved = load_file(run.folder / "ema.safetensors")
    _Tied().load_state_dict(saved)
    assert torch.equal(saved["second.weight"], saved["first.weight"])
    torch.testing.assert_close(saved["first.weight"], run.model.first.weight.detach() - 0.5)
    assert torch.equal(saved["norm.running_var"], torch.ones(2))
    assert [path.name for path in run.folder.glob("*ema*")] == ["ema.safetensors"]


def test_lr_monitor_logs_the_rate_of_the_coming_step(make_run: MakeRun) -> None:
    run, hook = make_run(), LRMonitor()
    hook.on_run_start(run)
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.25})
    run.advance()
    hook.on_step_end(run)
    run.step = run.total_steps - 1
    run.advance()
    hook.on_step_end(run)  # no step comes
    assert run.logged == [(0, "lr/0", 0.5), (1, "lr/0", 0.5), (1, "lr/1", 0.25)]


def test_lr_monitor_logs_each_rate_once_however_often_it_is_resumed(make_run: MakeRun) -> None:
    """What was logged for the step after a checkpoint is in the checkpoint."""
    run, hook = make_run(), LRMonitor()
    hook.on_run_start(run)
    for _ in range(3):
        run.advance()
        hook.on_step_end(run)
        hook = LRMonitor()
        hook.on_run_start(run)
    assert [step for step, _, _ in run.logged] == [0, 1, 2, 3]


def test_throughput_measures_between_log_points(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.0, 12.0, 16.0, 16.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    run, hook = make_run(samples_seen=1000), Throughput()
    hook.on_run_start(run)
    for losses in ({}, {"train__loss": 1.0}, {"eval__loss": 1.0}, {"train__loss": 1.0}):
        run.advance(**losses)
        hook.on_step_end(run)
    assert run.logged == [
        (2, "throughput/samples_per_second", 32.0),
        (4, "throughput/samples_per_second", 16.0),
    ]


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_nan_guard_names_loss_and_step_of_an_evaluation(make_run: MakeRun, value: float) -> None:
    run, hook = make_run(), NanGuard()
    run.advance(train__loss=1.0, eval__loss=0.1, eval__accuracy=float("nan"))
    hook.on_evaluate_end(run)
    run.advance(eval__loss=value)
    with pytest.raises(RunError, match=f"eval/loss is {value} at step 2"):
        hook.on_evaluate_end(run)


def test_hooks_declare_what_they_measure(make_run: MakeRun) -> None:
    run, hook = make_run(), Throughput()
    hook.on_run_start(run)
    run.advance(train__loss=1.0)
    hook.on_step_end(run)
    assert {name for _, name, _ in run.logged} == Throughput.measured


def test_progress_writes_lines_at_log_points(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    run, hook = make_run(), Progress(interval=timedelta(0))
    hook.on_run_start(run)
    for losses in ({"train__loss": 0.51234}, {}, {"train__loss": 0.4}):
        run.advance(**losses)
        hook.on_step_end(run)
    hook.on_run_end(run)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 3  # two log points and the end
    assert lines[0].startswith("epoch 1/4  step 1/40  ")
    assert "samples/s" in lines[0]
    assert " left  train/loss 0.5123" in lines[0]


def test_progress_lines_keep_their_distance(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    run, hook = make_run(), Progress(interval=timedelta(hours=1))
    hook.on_run_start(run)
    for _ in range(5):
        run.advance(train__loss=1.0)
        hook.on_step_end(run)
    assert capsys.readouterr().err == ""
    hook.on_run_end(run)
    assert "step 5/40" in capsys.readouterr().err


def test_progress_draws_a_bar_on_a_terminal(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(progress, "_REDRAW_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(
        "rich.console.Console", lambda stderr: Console(file=screen, force_terminal=True, width=120)
    )
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    run, hook = make_run(), Progress()
    hook.on_run_start(run)
    run.advance(train__loss=0.5)
    hook.on_step_end(run)
    hook.on_exception(run, RuntimeError())
    drawn = screen.getvalue()
    assert "step 1/40" in drawn
    assert "train/loss 0.5" in drawn
    assert "\x1b[3" not in drawn  # no colour
    assert drawn.endswith("\n\x1b[?25h")  # on a line of its own, the cursor shown again


def test_profiler_writes_one_trace(make_run: MakeRun) -> None:
    run, hook = make_run(), Profiler(wait=1, warmup=1, active=2)
    hook.on_run_start(run)
    for _ in range(8):
        run.model(torch.rand(4, 3)).sum().backward()
        run.advance()
        hook.on_step_end(run)
    hook.on_run_end(run)
    events = json.loads((run.folder / "trace-rank-0.json").read_text())["traceEvents"]
    assert sum(event["name"] == "aten::addmm" for event in events) == 2


def test_profiler_survives_a_short_run(make_run: MakeRun, caplog: pytest.LogCaptureFixture) -> None:
    run, hook = make_run(total_steps=2), Profiler(wait=0, warmup=1, active=5)
    hook.on_run_start(run)
    assert "wait + warmup + active are 6 steps, but only 2 are left" in caplog.text
    for _ in range(2):
        run.model(torch.rand(4, 3))
        run.advance()
        hook.on_step_end(run)
    hook.on_run_end(run)
    assert (run.folder / "trace-rank-0.json").is_file()
