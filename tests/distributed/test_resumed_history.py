"""The log of a run that was killed and resumed: one history, as if nothing had been."""

from __future__ import annotations

import json

from killing import kill, recorded_config, run, whole
from runs_of import record_of, rows_of


def test_every_step_is_in_the_log_once(command, tmp_path):
    """TRK-02: a row a step, a checkpoint every 5, killed at 13 and 17, with a torn last line; then to 20.

    Before the last attempt a line in the middle is damaged, which is said and stops nothing.
    """
    config = recorded_config(
        tmp_path,
        train={"steps": 20, "global_batch_size": 4, "log_every": "1 step", "evaluate_every": "5 steps"},
        hooks={"checkpoint": {"every": "5 steps"}},
    )
    expected = whole(command, 2, config, tmp_path / "whole")
    runs = tmp_path / "killed"
    folder = kill(command, 2, config, runs, "step_end", 13)
    with (folder / "metrics.jsonl").open("a") as log:
        log.write('{"step": 14, "epo')
    kill(command, 2, config, runs, "step_end", 17)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join([*lines[:3], "\0{\n", *lines[3:]]))
    done = run(command, 2, config, "--runs-dir", runs, "--resume")
    assert "metrics.jsonl:4: is no row of metrics" in done.stderr(0)

    assert rows_of(folder) == rows_of(expected)
    assert [row["step"] for row in rows_of(folder) if "train/loss" in row] == list(range(1, 21))
    assert [row["step"] for row in rows_of(folder) if "eval/loss" in row] == [5, 10, 15, 20]
    aside = [json.loads(line) for line in (folder / "metrics.superseded.jsonl").read_text().splitlines()]
    kept = [(line["attempt"], line["row"]["step"] if "row" in line else line["torn"]) for line in aside]
    assert kept == [(1, 11), (1, 12), (1, 13), (1, '{"step": 14, "epo'), (2, 16), (2, 17), (2, "\0{")]
    assert [attempt["first_step"] for attempt in record_of(folder)["attempts"]] == [1, 11, 16]


def test_the_step_is_the_same_counter_at_any_number_of_ranks(command, tmp_path):
    """TRK-02: of training and evaluation rows, at 1 and 2 ranks."""
    config = recorded_config(tmp_path, hooks={})
    alone, together = (
        [(row["step"], row["epoch"], "eval/loss" in row) for row in rows_of(folder)]
        for folder in (whole(command, size, config, tmp_path / str(size)) for size in (1, 2))
    )
    assert alone == together
