"""The tensorboard hook: what the event files hold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pipeline.components.hooks.tensorboard import TensorBoard
from pipeline.errors import ComponentError


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def play(hook: TensorBoard, run: Any, values: list[dict[str, float]]) -> None:
    for metrics in values:
        run.advance(**metrics)
        hook.on_step_end(run)


def test_writes_each_value_once_at_its_step(make_run: Callable[..., Any]) -> None:
    hook, run = TensorBoard(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"train__loss": 4.0}, {}, {"train__loss": 2.0, "eval__loss": 1.0}, {}])
    hook.on_run_end(run)
    assert scalars(run.folder) == {"train/loss": [(1, 4.0), (3, 2.0)], "eval/loss": [(3, 1.0)]}


def test_a_resumed_run_takes_back_what_is_past_its_checkpoint(make_run: Callable[..., Any]) -> None:
    hook, run = TensorBoard(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"train__loss": 4.0}, {"train__loss": 3.0}, {"train__loss": 9.0}])
    hook.on_exception(run, RuntimeError())  # step 3 is past the checkpoint of step 2
    resumed = make_run(
        step=2, metrics={"train/loss": 3.0, "eval/loss": 1.0}, metrics_steps={"train/loss": 2, "eval/loss": 2}
    )
    hook = TensorBoard()
    hook.on_run_start(resumed)
    play(hook, resumed, [{"train__loss": 2.0}])
    hook.on_run_end(resumed)
    assert scalars(run.folder) == {"train/loss": [(1, 4.0), (2, 3.0), (3, 2.0)]}


def test_a_run_killed_before_its_first_checkpoint_starts_over(make_run: Callable[..., Any]) -> None:
    hook, run = TensorBoard(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"train__loss": 9.0}] * 3)  # killed: nobody closes the file
    hook, again = TensorBoard(), make_run()
    hook.on_run_start(again)
    play(hook, again, [{"train__loss": 4.0}, {"train__loss": 3.0}])
    hook.on_run_end(again)
    hook.on_exception(run, KeyboardInterrupt())
    assert scalars(run.folder) == {"train/loss": [(1, 4.0), (2, 3.0)]}


def test_the_settings_are_there_to_compare_runs_by(make_run: Callable[..., Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    hook, run = TensorBoard(), make_run()
    hook.on_run_start(run)
    play(hook, run, [{"train__loss": 4.0}])
    hook.on_run_end(run)
    events = EventAccumulator(str(run.folder / "tensorboard"))
    events.Reload()
    content = events.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    assert values["optimizer.lr"].number_value == 0.5
    assert values["optimizer.betas"].string_value == "[0.9, 0.99]"


def test_the_graph_is_drawn_once_and_training_does_not_notice(make_run: Callable[..., Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    hook, run = TensorBoard(graph=True), make_run(model)
    hook.on_run_start(run)
    model(torch.ones(4, 3))
    state, random = model.state_dict(), torch.get_rng_state()
    expected = {name: tensor.clone() for name, tensor in state.items()}
    play(hook, run, [{"train__loss": 4.0}, {"train__loss": 3.0}])
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in expected.items())
    hook.on_run_end(run)
    events = EventAccumulator(str(run.folder / "tensorboard"))
    events.Reload()
    assert any("BatchNorm" in node.name for node in events.Graph().node)


def test_absent_package_names_the_extra(
    make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ComponentError, match=r"pip install 'pipeline-ddp\[tensorboard\]'"):
        TensorBoard().on_run_start(make_run())
