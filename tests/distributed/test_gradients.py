"""Promise 1 by hand: gradients, losses, norms and rates that can be worked out on paper."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from runs_of import PARTS, only_run, rows_of, weights_of, write_config
from separate import load_parts

FILE = PARTS.with_name("weight_parts.py")
VALUES = [1.0, 2.0, -3.0, 4.0]
RATE = 0.1


def ran(command, world_size, folder, **changes):
    """The folder of a run of one weight, by plain SGD without momentum, a checkpoint and a row a step."""
    defaults = {
        "components": [str(FILE)],
        "model": {"type": "one_weight"},
        "dataset": {"train": {"type": "listed", "values": VALUES}},
        "objective": {"type": "squares"},
        "metrics": {},
        "sampler": {"type": "sequential"},
        "optimizer": {"type": "sgd", "lr": RATE},
        "train": {"steps": 1, "global_batch_size": 4, "log_every": "1 step"},
        "hooks": {"checkpoint": {"every": "1 step"}},
    }
    folder.mkdir(exist_ok=True)
    config = write_config(folder, **defaults | changes)
    job = command(world_size, ["run", config, "--runs-dir", folder / "runs"])
    assert job.wait() == [0] * world_size, job.report()
    return only_run(folder / "runs")


SHARES = {
    "3 and 1, in a stream": (2, {"dataset": {"train": {"type": "unequal", "values": VALUES}}}, 8),
    "3 and 1, one by one": (
        2,
        {"dataset": {"train": {"type": "unequal", "values": VALUES}}, "train__max_microbatch_size": 1},
        8,
    ),
    "2, 1 and 1": (3, {}, 4),
    "1 each, and a rank with none": (5, {}, 4),
    "all 4, one by one": (1, {"train__max_microbatch_size": 1}, 4),
}


@pytest.mark.parametrize("clip", [None, 3.0])
@pytest.mark.parametrize("shares", SHARES)
def test_every_sample_counts_the_same(command, tmp_path, shares, clip):
    """ACC-02, REQ-14: 4 samples, squared loss on one weight; the update is that of one process."""
    world_size, changes, batch = SHARES[shares]
    clipping = {} if clip is None else {"train__clip_grad_norm": clip}
    if "stream" in shares or changes.get("dataset"):
        changes = {**changes, "sampler": None}
    train = {"train__global_batch_size": batch}
    folder = ran(command, world_size, tmp_path, **changes, **train, **clipping)
    gradient = sum(2 * value**2 for value in VALUES) / 4  # at weight 1: the mean over all samples
    step = RATE * (gradient if clip is None else clip)
    assert weights_of(folder)["weight"].item() == pytest.approx(1 - step, abs=1e-6 if clip else 1e-12)
    (row,) = rows_of(folder)
    assert row["train/loss"] == pytest.approx(sum(value**2 for value in VALUES) / 4, abs=1e-12)
    assert row.get("grad_norm") == (None if clip is None else pytest.approx(gradient, abs=1e-12))


@pytest.mark.parametrize("counted", [[1, 9], [1, 9, 0], [9, 0]])
def test_tokens_are_weighed_by_their_number(command, tmp_path, counted):
    """ACC-01: microbatches of 1, 9 and no tokens: 2 x 1 and 1 x 2, on 1 and 2 ranks, labels ignored."""
    expected_loss, expected = one_step_over_all_tokens(counted)
    for number, (world_size, limit) in enumerate([(1, None), (1, 1), (2, None), (2, 1)]):
        folder = ran(
            command,
            world_size,
            tmp_path / str(number),
            model={"type": "linear_of_tokens"},
            dataset={"train": {"type": "tokens_of", "counted": counted}},
            objective={"type": "cross_entropy", "ignore_index": -100},
            train__global_batch_size=len(counted),
            train__max_microbatch_size=limit,
        )
        for name, value in weights_of(folder).items():
            torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-10)
        assert rows_of(folder)[0]["train/loss"] == pytest.approx(expected_loss, abs=1e-10)


def one_step_over_all_tokens(counted):
    """The mean loss of all counted tokens, and the parameters after a step on it, in plain torch."""
    from pipeline.engine.random_state import preserved, seed_all

    parts = load_parts(FILE)
    with preserved():
        seed_all(11, "build", "model")
        model = parts.LinearOfTokens()
    data = parts.TokensOf(counted)
    logits, targets = model(data.tokens).flatten(0, 1), data.targets.flatten()
    loss = cross_entropy(logits, targets, ignore_index=-100)
    loss.backward()
    with torch.no_grad():
        return loss.item(), {name: p - RATE * p.grad for name, p in model.named_parameters()}


def clipped_descent(rates, skipped=()):
    """The weights after every step: each moves along (0.6, 0.8), the clipped gradient."""
    weights, rows = [1.0, 1.0], []
    for step, rate in enumerate(rates, start=1):
        if step not in skipped:
            weights = [weights[0] - rate * 0.6, weights[1] - rate * 0.8]
        rows.append(weights)
    return rows


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_norm_is_that_of_the_unscaled_reduced_gradient(command, tmp_path, precision):
    """ACC-04: scale 65536, gradient norm 10, clip 1.0, accumulation 2, 2 ranks; norms logged as they are."""
    folder = ran(command, 2, tmp_path, **steep(precision, infinite=-1))
    rows, weights = steps_and_weights(folder)
    assert [row["grad_norm"] for row in rows] == pytest.approx([10.0] * 4)
    assert [row["lr"] for row in rows] == pytest.approx([0.1, 0.05, 0.025, 0.0125])
    assert weights == close(clipped_descent([0.1, 0.05, 0.025, 0.0125]))


def test_a_step_that_overflows_is_skipped_on_all_ranks(command, tmp_path):
    """ACC-04: an infinite gradient in one microbatch of rank 1; it counts as a step, not for the schedule."""
    folder = ran(command, 2, tmp_path, **steep("fp16", infinite=5))  # in the second of four steps
    rows, weights = steps_and_weights(folder)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert [row["lr"] for row in rows] == pytest.approx([0.1, 0.05, 0.05, 0.025])
    assert weights == close(clipped_descent([0.1, 0.05, 0.05, 0.025], skipped=[2]))
    state = torch.load(folder / "checkpoints" / "step-000004" / "state.pt", weights_only=True)
    assert state["scaler"]["scale"] == 32768.0 and state["scheduler"]["last_epoch"] == 3


def steep(precision, infinite):
    return {
        "model": {"type": "slope"},
        "dataset": {"train": {"type": "steep", "length": 16, "infinite": infinite}},
        "objective": {"type": "height"},
        "scheduler": {"type": "step_lr", "step_size": 1, "gamma": 0.5},
        "train": {
            "epochs": 1,
            "global_batch_size": 4,
            "max_microbatch_size": 1,
            "precision": precision,
            "clip_grad_norm": 1.0,
            "log_every": "1 step",
        },
        "hooks": {"updates": {}, "checkpoint": {"every": "1 step"}},
    }


def close(pairs):
    return [pytest.approx(pair, abs=1e-5) for pair in pairs]


def steps_and_weights(folder):
    """The rows of the steps, and the weights after each, which a hook logs behind its step's row."""
    rows = rows_of(folder)
    weights = [[row["weight/0"], row["weight/1"]] for row in rows if "weight/0" in row]
    return [row for row in rows if "train/loss" in row], weights


ALL_RATES = [(1, None), (2, 1), (4, None), (1, 2), (1, 1), (2, None), (4, 1)]
"""World sizes and limits of a microbatch: 1 to 4 microbatches a share."""


def test_the_schedule_runs_by_optimizer_steps(command, tmp_path, count):
    """ACC-05: linear decay to 0 over dataset 64, batch 4, 2 epochs, at any world size and accumulation."""
    for number, (world_size, limit) in enumerate(ALL_RATES[: count(3, 7)]):
        folder = ran(
            command,
            world_size,
            tmp_path / str(number),
            dataset={"train": {"type": "listed", "values": [0.1] * 64}},
            scheduler={"type": "warmup_linear"},
            train={"epochs": 2, "global_batch_size": 4, "log_every": "1 step"},
            train__max_microbatch_size=limit,
            hooks={},
        )
        rates = [row["lr"] for row in rows_of(folder) if "lr" in row]
        assert rates == pytest.approx([RATE * (1 - step / 32) for step in range(32)], abs=1e-12)
