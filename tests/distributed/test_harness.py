"""The harness itself: ranks that talk, exit statuses, tracebacks, kills and timeouts."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from harness import RanksFailed, process_group
from harness.client import RankServer


def all_reduce(base: int) -> tuple[int, float]:
    import torch
    import torch.distributed as dist

    with process_group():
        value = torch.tensor([float(base + dist.get_rank())])
        dist.all_reduce(value)
        return dist.get_rank(), value.item()


def ddp_gradient() -> list[float]:
    with process_group():
        return _ddp_gradient(float(os.environ["RANK"]) + 1)


def _ddp_gradient(inputs: float) -> list[float]:
    """The gradient of sum(w * inputs), averaged over the ranks by DDP."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = torch.nn.Linear(2, 1, bias=False)
    wrapped = DistributedDataParallel(model)
    wrapped(torch.full((1, 2), inputs)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model.weight.grad is not None
    return model.weight.grad.flatten().tolist()


def launcher_environment() -> dict[str, str]:
    return dict(os.environ)


def import_path() -> list[str]:
    return sys.path


def leave_with(statuses: list[int]) -> None:
    sys.exit(statuses[int(os.environ["RANK"])])


def raise_on_rank_1() -> None:
    print("rank", os.environ["RANK"], "speaks")
    if os.environ["RANK"] == "1":
        raise ValueError("a broken rank")
    time.sleep(600)


def sleep_for_ever() -> None:
    print("asleep", flush=True)
    time.sleep(600)


def child_that_hides() -> None:
    """A grandchild in a session of its own, which a group's signal does not reach."""
    import subprocess

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(600)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until(condition, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_the_server_forks_with_a_single_thread(rank_server):
    assert rank_server.threads == 1


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ranks_form_a_group_and_return_their_results(ranks, world_size):
    expected = float(sum(10 + rank for rank in range(world_size)))
    assert ranks(world_size, all_reduce, 10) == [(rank, expected) for rank in range(world_size)]


def test_autograd_ddp_and_an_optimizer_work_in_a_fork(ranks):
    assert ranks(2, ddp_gradient) == [[1.5, 1.5], [1.5, 1.5]]


def test_ranks_see_what_torchrun_tells_them_and_the_tests_environment(ranks):
    first, second = ranks(2, launcher_environment, env={"EXTRA": "yes"})
    told = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS", "EXTRA")
    assert [second[name] for name in told] == ["1", "1", "2", "2", "127.0.0.1", "1", "yes"]
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert "OPENBLAS_NUM_THREADS" not in first
    assert "RANK" not in ranks(1, launcher_environment, launcher=False)[0]


@pytest.mark.soak
def test_ranks_import_nothing_from_where_an_earlier_test_had_its_files(tmp_path, monkeypatch):
    """Whenever the server is started: which test comes first depends on the number of workers."""
    monkeypatch.syspath_prepend(tmp_path)
    with closing(RankServer(tmp_path)) as server, closing(server.spawn(1, import_path)) as job:
        (paths,) = job.results()
    assert str(tmp_path) not in paths and str(Path(__file__).parents[1] / "support") in paths


def test_exit_statuses_are_kept(spawn):
    assert spawn(3, leave_with, [0, 75, 3], end_together=False).wait() == [0, 75, 3]


def test_a_failed_rank_ends_the_others_and_shows_its_traceback(ranks):
    with pytest.raises(RanksFailed) as caught:
        ranks(2, raise_on_rank_1)
    message = str(caught.value)
    assert "exit statuses [-15, 1]" in message
    assert "ValueError: a broken rank" in message
    assert "rank 0 speaks" in message and "rank 1 speaks" in message


def test_a_kill_is_seen_as_its_signal(spawn):
    job = spawn(2, sleep_for_ever, end_together=False)
    until(lambda: "asleep" in job.stdout(0) and "asleep" in job.stdout(1))
    job.kill(1)
    until(lambda: 1 in job.statuses())
    assert job.statuses() == {1: -9}
    job.kill(0, signal.SIGTERM)
    assert job.wait() == [-15, -9]


def test_a_timeout_kills_every_rank_and_shows_their_output(spawn):
    job = spawn(2, sleep_for_ever)
    until(lambda: "asleep" in job.stdout(0) and "asleep" in job.stdout(1))
    with pytest.raises(RanksFailed, match=r"ranks \[0, 1\] did not end within 0.01 s(.|\n)*asleep"):
        job.wait(timeout=0.01)
    until(lambda: not any(map(alive, job.pids)))


def test_closing_a_job_kills_what_its_ranks_started(spawn):
    job = spawn(1, child_that_hides)
    until(lambda: job.stdout(0).endswith("\n"))
    grandchild = int(job.stdout(0))
    assert alive(grandchild)
    job.close()
    until(lambda: not alive(grandchild) and not alive(job.pids[0]))


def test_only_functions_that_a_rank_can_find_are_taken(spawn):
    with pytest.raises(ValueError, match="at the top of a file"):
        spawn(1, lambda: None)
