"""``pipeline runs --tree``: lineage, with what changed on each edge and what it did."""

from __future__ import annotations

import json

import pytest

from tiny_runs import call, train, write_tiny


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A runs folder with a run, its child, its grandchild, and one that has nothing to do with them."""
    folder = tmp_path_factory.mktemp("tree_command")
    config, runs = write_tiny(folder, "[scheduler]\ntype = 'constant'\n"), folder / "runs"
    first = train(config, runs, "name=first")
    child = train(config, runs, "name=child", "optimizer.lr=0.2", "hooks.nan_guard={}")
    plain = write_tiny(folder, name="plain.toml")
    grandchild = train(plain, runs, "name=grandchild", "optimizer.lr=0.2", "hooks.nan_guard={}")
    train(config, runs, "name=other", "seed=7")
    set_parent(child, first, "step-000002")
    set_parent(grandchild, child)
    set_best(first, 0.5)
    set_best(child, 0.6)
    return runs, first, child, grandchild


def set_parent(run, parent, checkpoint=None):
    edit(run, parent={"run": parent.name, "checkpoint": checkpoint})


def set_best(run, value):
    edit(run, best={"metric": "eval/accuracy", "value": value, "step": 2})


def edit(run, **fields):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | fields))


def lines(runs, *options):
    result = call("runs", "--tree", "--runs-dir", runs, *options)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


def test_the_forest_shows_each_run_below_its_parent(made):
    runs, first, child, grandchild = made
    shown = lines(runs)
    starts = {
        name: next(line for line in shown if f"{name}-2" in line) for name in ("first", "child", "grandchild")
    }
    assert starts["first"].startswith(first.name)
    assert starts["child"].startswith(f"└── {child.name}  completed  4 steps")
    assert starts["grandchild"].startswith(f"    └── {grandchild.name}")
    assert any(line.startswith("other-") for line in shown)


def test_an_edge_tells_what_changed_and_what_that_did_to_the_monitored_metric(made):
    shown = "\n".join(lines(made[0]))
    assert "weights of step-000002; optimizer.lr 0.1 -> 0.2; + hooks.nan_guard" in shown
    assert "=>  eval/accuracy 0.5 -> 0.6 (+20 %)" in shown
    assert "    - scheduler  =>" in shown, "a section that is gone is one change"


def test_a_run_whose_parent_is_not_shown_is_a_root_that_says_so(made):
    runs, first, child, _ = made
    shown = lines(runs, "--where", "name == child")
    assert shown[0].startswith(child.name)
    assert shown[1] == f"from {first.name}, which is not shown"


def test_records_that_name_each_other_as_parent_end(tmp_path):
    runs = tmp_path / "runs"
    config = write_tiny(tmp_path)
    one, two = train(config, runs, "name=one"), train(config, runs, "name=two")
    set_parent(one, two)
    set_parent(two, one)
    assert sum(f"{name}-2" in line for line in lines(runs) for name in ("one", "two")) >= 2


def test_the_parent_is_in_the_json(made):
    runs, first, *_ = made
    rows = {row["name"]: row for row in json.loads(call("runs", "--json", "--runs-dir", runs).stdout)}
    assert rows["child"]["parent"] == {"run": first.name, "checkpoint": "step-000002"}
    assert rows["first"]["parent"] is None


def test_only_one_form_at_a_time(made):
    assert call("runs", "--tree", "--json", "--runs-dir", made[0]).exit_code == 2
