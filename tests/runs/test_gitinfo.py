from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.runs import gitinfo
from pipeline.runs.gitinfo import MAX_PATCH, Code, read_code
from pipeline.runs.record import Git

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", folder, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@needs_git
def test_commit_and_dirty_flag(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert read_code(repository).git == Git(commit, dirty=False)
    (repository / "runs").mkdir()
    (repository / "runs" / "new").write_text("")  # untracked: a runs folder makes no code dirty
    assert read_code(repository / "runs").git == Git(commit, dirty=False)
    (repository / "a.py").write_text("2")
    assert read_code(repository).git == Git(commit, dirty=True)


@needs_git
def test_outside_a_repository_and_before_the_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert read_code(tmp_path) == Code(None)
    assert read_code(tmp_path / "missing") == Code(None)
    git(tmp_path, "init", "-q")
    assert read_code(tmp_path) == Code(None)


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_code(tmp_path) == Code(None)


def test_a_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gitinfo, "_SECONDS", 0.1)
    assert read_code(tmp_path) == Code(None)


@needs_git
def test_the_patch_turns_the_commit_into_the_code_untracked_source_included(
    repository: Path, tmp_path: Path
) -> None:
    """REQ-15: a run's folder has what no commit has."""
    assert read_code(repository).patch == ""
    (repository / "a.py").write_text("changed\n")
    (repository / "new.py").write_text("new\n")
    (repository / "sub").mkdir()
    (repository / "sub" / "b.toml").write_text("x = 1\n")
    index = (repository / ".git" / "index").read_bytes()
    patch = read_code(repository / "sub").patch
    assert (repository / ".git" / "index").read_bytes() == index, "the user's index is as it was"
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    subprocess.run(["git", "-C", clone, "apply"], input=patch, text=True, check=True)
    assert (clone / "a.py").read_text() == "changed\n"
    assert (clone / "new.py").read_text() == "new\n"
    assert (clone / "sub" / "b.toml").read_text() == "x = 1\n"


@needs_git
def test_the_patch_is_of_source_alone_and_has_an_end(repository: Path) -> None:
    (repository / ".gitignore").write_text("ignored.py\n")
    (repository / "runs").mkdir()
    left_out = ["ignored.py", "weights.bin", ".env", "runs/config.toml"]
    for name in left_out:
        (repository / name).write_text("x\n")
    (repository / "big.py").write_text("#" * (1 << 17) + "#\n")
    patch = read_code(repository, leave_out=repository / "runs").patch
    assert not any(name in patch for name in [*left_out, "big.py"])
    (repository / "a.py").write_text("line\n" * MAX_PATCH)
    patch = read_code(repository).patch
    assert len(patch) < MAX_PATCH + 100
    assert patch.endswith(f"... cut after {MAX_PATCH} bytes\n")
