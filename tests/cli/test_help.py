"""``pipeline --help``, and what the commands that train nothing import."""

from __future__ import annotations

import pytest

from tiny_runs import call, modules_of, write_tiny

HEAVY = {"torch", "omegaconf", "numpy", "tree_sitter"}


def test_help_names_every_command():
    result = call("--help")
    assert result.exit_code == 0
    for name in ("run", "check", "evaluate", "components", "diff", "runs"):
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize("command", ["run", "check", "components", "diff", "runs"])
def test_every_command_explains_itself_and_its_exit_status(command):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert "Exit status:" in result.stdout


def test_an_unknown_command_is_a_usage_error():
    assert call("rnu").exit_code == 2


def test_help_imports_nothing_heavy():
    """PRF-02: by what is in sys.modules afterwards, since a time would depend on the machine."""
    assert not modules_of("--help") & (HEAVY | {"pydantic", "rich"})


def test_the_list_of_components_imports_no_torch():
    """PRF-02."""
    assert not modules_of("components") & HEAVY


def test_runs_imports_no_torch(tmp_path):
    """PRF-02."""
    assert not modules_of("runs", "--runs-dir", tmp_path) & HEAVY


def test_diff_of_two_files_that_only_differ_in_values_imports_no_torch(tmp_path):
    """PRF-02."""
    other = write_tiny(tmp_path, "[optimizer]\nlr = 0.2\n")
    assert "torch" not in modules_of("diff", tmp_path / "base.toml", other)
