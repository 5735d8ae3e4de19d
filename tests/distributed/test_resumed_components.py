"""What has a state goes on from it: schedulers, the scaler, averages, and hooks in any order."""

from __future__ import annotations

import pytest

from comparing import assert_same_run
from killing import killed_again_and_again, record, recorded_config, whole
from runs_of import record_of, rows_of, state_of

WARM_UP = {"type": "warmup_cosine", "warmup_steps": 10}
PLATEAU = {"type": "reduce_lr_on_plateau", "monitor": "eval/loss", "patience": 0, "threshold": 0.5}


@pytest.mark.parametrize(
    ("scheduler", "precision"),
    [
        pytest.param(WARM_UP, "fp16", id="warm-up and cosine, with a scaler"),
        pytest.param(PLATEAU, "fp32", id="by a metric"),
    ],
)
def test_rates_scaler_and_averages_go_on(command, tmp_path, scheduler, precision):
    """CKP-14: killed at steps 1, 5, 10 and 13; the rate used at every step is that of a whole run."""
    config = recorded_config(
        tmp_path,
        scheduler=scheduler,
        train__precision=precision,
        train__evaluate_every="2 steps",
        hooks={"recorder": {}, "ema": {"decay": 0.9}, "checkpoint": {"every": "1 step"}},
    )
    expected = whole(command, 2, config, tmp_path / "whole")
    kills = [("step_end", step) for step in (1, 5, 10, 13)]
    killed = killed_again_and_again(command, 2, config, tmp_path / "killed", kills)
    assert_same_run(killed, expected)
    assert (killed / "ema.safetensors").read_bytes() == (expected / "ema.safetensors").read_bytes()
    rates = [record(killed)[step, 0]["rates"] for step in range(1, 16)]
    assert rates == [record(expected)[step, 0]["rates"] for step in range(1, 16)]
    assert len({tuple(rate) for rate in rates}) > 3
    if precision == "fp16":
        scaler = state_of(killed)["scaler"]  # the first scale overflowed, and the scaler has counted on since
        assert scaler["scale"] < 65536 and 0 < scaler["_growth_tracker"] < 15


VALUES = [0.5, 0.4, 0.6, 0.45, 0.7, 0.1, 0.1, 0.1]
"""The best comes at the second evaluation; three without an improvement end with the fifth."""


@pytest.mark.parametrize(
    ("names", "event"),
    [
        pytest.param(("checkpoint", "early_stopping"), "step_end", id="before the checkpoint"),
        pytest.param(("early_stopping", "checkpoint"), "epoch_start", id="after the checkpoint"),
    ],
)
def test_early_stopping_acts_alike_after_any_kill(command, tmp_path, names, event):
    """CKP-11: patience 3, in both orders of the file, killed in each epoch before or after its checkpoint."""
    tables = {
        "checkpoint": {"every": "1 epoch", "monitor": "eval/told"},
        "early_stopping": {"monitor": "eval/told", "patience": 3},
    }
    config = recorded_config(
        tmp_path,
        metrics={"told": {"type": "scripted_by_step", "values": VALUES}},
        train={"epochs": 8, "global_batch_size": 20},
        hooks={"steps_told": {}} | {name: tables[name] for name in names},
    )
    expected = whole(command, 2, config, tmp_path / "whole")
    kills = [(event, step) for step in (1, 2, 3, 4)]
    killed = killed_again_and_again(command, 2, config, tmp_path / "killed", kills)
    for folder in (expected, killed):
        assert record_of(folder)["steps"] == 5
        assert record_of(folder)["best"] == {"metric": "eval/told", "value": 0.4, "step": 2}
        assert "eval/told has not improved 3 times" in record_of(folder)["reason"]
    assert_same_run(killed, expected)
    assert [row["eval/told"] for row in rows_of(killed) if "eval/told" in row] == VALUES[:5]
