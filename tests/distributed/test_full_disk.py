"""CKP-10: no room, or no permission, through real runs on small file systems of their own."""

from __future__ import annotations

import re
import subprocess

import pytest

from pipeline.runs.checkpoints import Checkpoints
from runs_of import BASE, PARTS, only_run, record_of, rows_of, write_config

COMPONENTS = [*BASE["components"], str(PARTS.with_name("saving.py"))]
WIDTH = 220_000  # of the model: 10.5 MB of weights, as much of momenta


@pytest.fixture
def disk(tmp_path):
    """``disk(size)``: a folder on a tmpfs of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    mounted = []

    def make(size, *options):
        words = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", mount]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"a small tmpfs cannot be mounted: {made.stderr.strip()}")
        mounted.append(mount)
        return mount

    yield make
    for mount in mounted:
        subprocess.run(["umount", mount], check=True)


def configured(tmp_path, on_disk_full="stop", **changes):
    return write_config(
        tmp_path,
        model={"type": "net", "width": WIDTH},
        metrics={},
        train={"steps": 5, "global_batch_size": 8, "evaluate_every": "never", "log_every": "1 step"},
        hooks={"checkpoint": {"every": "1 step", "keep_last": 2, "on_disk_full": on_disk_full}},
        **changes,
    )


def sound(folder):
    store = Checkpoints(folder / "checkpoints")
    assert [path.name for path in store.folder.glob(".*")] == []
    assert [problem for one in store.checkpoints() for problem in store.verify(one.name)] == []
    return sorted(one.step for one in store.checkpoints())


def test_a_disk_that_fills_up_stops_the_run(command, tmp_path, disk):
    """60 MB, checkpoints of 21 MB, two kept and one written: told before the first step."""
    runs = disk("60m")
    job = command(2, ["run", configured(tmp_path), "--runs-dir", runs])
    assert job.wait(timeout=60) == [1, 1], job.report()
    before, error = job.stderr(0).splitlines()[2], job.stderr(0).splitlines()[-1]
    warning = re.search(
        r"warning: .*: 3 more checkpoints of at least (\d+) bytes .* (\d+) bytes are free", before
    )
    assert warning, job.report()
    assert 21_000_000 < int(warning[1]) < 22_000_000 and int(warning[2]) < 60 * 2**20
    told = re.search(
        r"step-000003: No space left on device \(ENOSPC\); needed at least (\d+) bytes, free (\d+)", error
    )
    assert told, job.report()
    assert int(told[1]) > 21_000_000 > int(told[2])
    assert sound(only_run(runs)) == [1, 2]
    assert (only_run(runs) / "checkpoints" / "last").read_text() == "step-000002\n"
    assert record_of(only_run(runs))["status"] == "failed"


def test_a_disk_that_fills_up_may_be_a_warning(command, tmp_path, disk):
    runs = disk("60m")
    job = command(2, ["run", configured(tmp_path, on_disk_full="warn"), "--runs-dir", runs])
    assert job.wait(timeout=60) == [0, 0], job.report()
    for step in (3, 4, 5):
        assert f"warning: no checkpoint of step {step}: cannot write" in job.stderr(0)
    assert sound(only_run(runs)) == [1, 2]
    assert [row["step"] for row in rows_of(only_run(runs))] == [1, 2, 3, 4, 5]


def test_a_disk_that_is_too_small_for_one_is_refused_before_the_first_step(command, tmp_path, disk):
    """The weights alone would fit; the momenta, which are not there yet, do not."""
    runs = disk("16m")
    job = command(2, ["run", configured(tmp_path), "--runs-dir", runs])
    assert job.wait(timeout=60) == [1, 1], job.report()
    error = job.stderr(0).splitlines()[-1]
    assert "looking for room for checkpoints, epoch 0, after step 0" in error, job.report()
    assert "(ENOSPC); needed at least 2" in error and "bytes, free 1" in error
    assert record_of(only_run(runs))["steps"] == 0


def test_a_disk_that_is_read_only_is_refused_before_the_first_step(command, tmp_path, disk):
    runs = disk("60m", "ro")
    job = command(2, ["run", configured(tmp_path), "--runs-dir", runs])
    assert set(job.wait(timeout=60)) == {1}, job.report()
    assert "Read-only file system (EROFS)" in job.stderr(0) and "--runs-dir" in job.stderr(0)


def test_a_limit_on_file_sizes_stops_the_run(command, tmp_path):
    """RLIMIT_FSIZE: files of 10 MB are not allowed; the error says which limit."""
    config = configured(tmp_path, components=COMPONENTS, hooks__file_size_limit={"size": 10_000_000})
    job = command(2, ["run", config, "--runs-dir", tmp_path / "runs"])
    assert job.wait(timeout=60) == [1, 1], job.report()
    error = job.stderr(0).splitlines()[-1]
    assert "step-000001: File too large (EFBIG)" in error and "ulimit -f" in error, job.report()
    assert sound(only_run(tmp_path / "runs")) == []
