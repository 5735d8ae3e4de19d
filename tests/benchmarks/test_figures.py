"""The benchmarks of costs and memory measure what they name, and their pages show it.

What depends on nothing but memory is held against its bar here; times are only measured, by
``python -m benchmarks costs`` and ``start``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import accumulate, chain, cycle

import pytest
import torch

from benchmarks import costs
from benchmarks.compare import Case, Comparison
from benchmarks.costs_page import costs_page
from benchmarks.figure import Figure, table
from benchmarks.memory import ONE_COPY, Course, checkpoint_copies, courses
from benchmarks.memory_page import memory_page
from benchmarks.meter import Speed
from benchmarks.probed import probed, train_table
from benchmarks.processes import ROOT, FailedError
from benchmarks.sides import ENGINE, TUTORIAL
from benchmarks.start_page import start_page


def test_a_table_has_median_least_and_largest():
    *_, timed, ratio = table([Figure("a step", "us", 5, (3.0, 1.0, 2.0)), Figure("other", "", None, (1.25,))])
    assert timed == "| a step | 3 | 2.000 us | 1.000 us | 3.000 us | 5 us |"
    assert ratio == "| other | 1 | 1.250 | 1.250 | 1.250 |  |"


def test_the_evaluation_beside_a_bare_loop_has_its_loss():
    figure = costs.evaluation("mlp", rounds=2, turns=1)
    assert len(figure.values) == 2 and all(ratio > 0 for ratio in figure.values)


def test_a_bare_loop_of_another_loss_is_refused():
    data = {"type": "benchmark", "workload": "mlp"}
    with pytest.raises(FailedError, match="the bare loop's loss is"):
        probed(
            "mlp",
            dataset={
                "train": data,
                "eval": {"type": "random", "length": 64, "input_shape": [784], "classes": 10},
            },
            train=train_table("mlp", steps=1, evaluate_every="1 step"),
            hooks={"bare_evaluation": {"workload": "mlp", "batch": 64}},
        )


def test_the_engine_s_reader_is_timed_over_all_rows_once():
    rows = torch.utils.data.TensorDataset(torch.arange(10))
    batches = [batch.tolist() for (batch,) in costs._epoch(costs._reader(rows, 4))]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(chain.from_iterable(batches)) == list(range(10))


def test_rows_of_metrics_are_told_from_the_steps_without(monkeypatch):
    """PRF-01: a row of three steps' time every hundred steps, and one long step that no median sees."""
    gaps = [3.0 if step % 100 == 99 else 1.0 for step in range(599)]
    gaps[250] = 50.0
    monkeypatch.setattr(costs, "probed", lambda *_, **__: list(accumulate(gaps, initial=0.0)))
    assert costs.log_points("linear", rounds=1, rows=5).values == pytest.approx((1.02,))


def test_the_logged_speed_is_compared_with_a_clock(monkeypatch):
    """PRF-01: of windows of 1 and 3 s; a speed that leaves out half a second is off by 20 %."""
    rows = [(10.0, 100, None), (11.0, 200, None), (14.0, 300, 100.0), (15.0, 400, 100 / 3)]
    monkeypatch.setattr(costs, "probed", lambda *_, **__: rows)
    assert costs.reported_speed(rounds=1).values == pytest.approx((0.0,), abs=1e-9)
    rows[3] = (15.0, 400, 40.0)
    assert costs.reported_speed(rounds=1).values == pytest.approx((20.0,))


def test_the_logged_speed_of_a_run_is_that_of_a_clock():
    """PRF-01: in no window twice as much; costs.md has the number."""
    assert costs.reported_speed(rounds=1, rows=10).values[0] < 90


def test_fetching_is_compared_with_both_ways_by_hand(monkeypatch):
    """Each with its own time."""
    seconds = cycle([6.0, 3.0, 2.0])
    monkeypatch.setattr(costs, "_seconds", lambda side: next(seconds))
    selected, indexed = costs.fetching("linear")
    assert "index_select" in selected.what and set(selected.values) == {2.0}
    assert "rows[index]" in indexed.what and set(indexed.values) == {3.0}


def test_the_peak_above_imports_is_what_a_module_holds(tmp_path):
    (tmp_path / "holder.py").write_text("import decimal\nheld = bytearray(b'x' * 50_000_000)\n")
    told = tmp_path / "told.json"
    for words in (["run", told, "holder"], ["import", told]):
        command = [sys.executable, "-m", "benchmarks.resident", *map(str, words)]
        subprocess.run(command, check=True, env={"PYTHONPATH": f"{ROOT}:{tmp_path}"}, cwd=tmp_path)
    tree = json.loads(told.read_text())
    assert "decimal" in tree["modules"]
    assert 95 <= tree["peak"] - tree["level"] <= 105  # the text, and the copy of it


@pytest.mark.soak
def test_a_checkpoint_in_the_background_holds_one_copy_of_the_state():
    """Written beside the training, it raises the peak by the state once."""
    (copies,) = checkpoint_copies(rounds=1).values
    assert 0.9 <= copies <= ONE_COPY


@pytest.mark.soak
def test_memory_is_flat_over_steps_and_epochs():
    """20,000 steps and 200 epochs with evaluations grow by no megabyte."""
    steps, epochs = courses(steps=20_000, epochs=200)
    assert [count for count, _ in steps.readings] == [2_000 * place for place in range(1, 11)]
    assert [count for count, _ in epochs.readings] == [20 * place for place in range(1, 11)]
    assert max(steps.growth, epochs.growth) < 1.0


def test_the_pages_show_the_figures():
    figure = Figure("an empty hook, a step", "us", 5, (0.5,))
    assert "| an empty hook, a step | 1 | 0.500 us |" in costs_page([figure])
    course = Course("linear", "steps", ((1_000, 300.0), (2_000, 310.0), (3_000, 310.5)))
    assert "| linear | 300.0 (1,000 steps), 310.0 (2,000 steps), 310.5 (3,000 steps) | 0.5 |" in memory_page(
        [figure], [course]
    )


def test_the_page_of_starts_shows_by_how_much_the_engine_is_later():
    def speeds(*first_steps: float) -> list[Speed]:
        return [Speed(1, 1.0, 1.0, 1.0, first_step) for first_step in first_steps]

    both = {TUTORIAL: speeds(2.0, 3.0), ENGINE: speeds(2.5, 3.1)}
    page = start_page([], [Comparison(Case("linear", 2), both, {})])
    (row,) = [line for line in page.splitlines() if "behind the tutorial loop" in line]
    assert row.startswith("| first step, 2 ranks: ")
    assert row.endswith("| 2 | 0.300 s | 0.100 s | 0.500 s | 0.8 s |")
