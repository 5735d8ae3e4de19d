"""Two and three machines: network namespaces with addresses and folders of their own, and real torchrun."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import Torchrun
from runs_of import only_run, record_of, rows_of, write_config

STEPS = 25


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)


def namespaces_work() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "iptables"))):
        return False
    return subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    not namespaces_work(), reason="needs root, iproute2, iptables and network namespaces"
)


class Machines:
    """Machines on one bridge; machine N has the address 10.N's and a folder of its own."""

    def __init__(self, number: int, folder: Path) -> None:
        tag = f"{os.getpid() % 100000}"
        self.bridge = f"br{tag}"
        self.names = [f"m{tag}-{index}" for index in range(number)]
        self.folders = [folder / f"machine-{index}" for index in range(number)]
        self.launchers = 0

    def __enter__(self) -> Machines:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for index, (name, folder) in enumerate(zip(self.names, self.folders, strict=True)):
            folder.mkdir()
            ip("netns", "add", name)
            ip("link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"v{name}", "master", self.bridge, "up")
            ip("-n", name, "addr", "add", f"{self.address(index)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            subprocess.run(["ip", "link", "del", f"v{name}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)

    def address(self, index: int) -> str:
        return f"10.77.{os.getpid() % 250}.{index + 1}"

    def link(self, index: int, state: str) -> None:
        """Cut a machine's link ("down"), or heal it ("up")."""
        ip("link", "set", f"v{self.names[index]}", state)

    def worsen(self, index: int) -> None:
        """Lose and delay packets: by netem, or where the kernel has none, by iptables and a slow queue."""
        inside = ["ip", "netns", "exec", self.names[index]]
        queue = [*inside, "tc", "qdisc", "add", "dev", "eth0", "root"]
        netem = subprocess.run(
            [*queue, "netem", "delay", "5ms", "3ms", "loss", "1%"], check=False, capture_output=True
        )
        if netem.returncode == 0:
            return
        slow = ["tbf", "rate", "8mbit", "burst", "4kb", "latency", "100ms"]
        subprocess.run([*queue, *slow], check=True, capture_output=True)
        chance = ["statistic", "--mode", "random", "--probability", "0.01"]
        lose = ["iptables", "-A", "INPUT", "-m", *chance, "-j", "DROP"]
        subprocess.run([*inside, *lose], check=True, capture_output=True)

    def kill(self, index: int, *, launcher: bool) -> None:
        """SIGKILL the rank on a machine, and with it the launcher: then the machine is gone."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.names[index]], check=True, capture_output=True, text=True
        )
        commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in listed.stdout.split()}
        launchers = {pid for pid, command in commands.items() if b"torch.distributed.run" in command}
        assert launchers and launchers < set(commands)
        for pid in sorted(commands, key=launchers.__contains__, reverse=True):
            if launcher or pid not in launchers:
                os.kill(pid, signal.SIGKILL)

    def run(self, machines: list[int], arguments: list[object], *options: str) -> list[Torchrun]:
        """One torchrun on each machine; the first of them hosts the rendezvous."""
        self.launchers += 1
        endpoint = f"{self.address(machines[0])}:29400"
        started = []
        for index in machines:
            rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "machines"]
            hosting = ["--rdzv-conf", f"is_host={int(index == machines[0])}"]
            shape = ["--nnodes", str(len(machines)), "--nproc-per-node", "1"]
            launcher = [sys.executable, "-m", "torch.distributed.run", *shape, *rendezvous, *hosting]
            local = ["--local-addr", self.address(index), *options]
            folder = self.folders[index] / f"launcher-{self.launchers}"
            started.append(
                Torchrun(
                    ["ip", "netns", "exec", self.names[index], *launcher, *local, "-m", "pipeline", "run"]
                    + [str(argument) for argument in arguments],
                    folder,
                    {"GLOO_SOCKET_IFNAME": "eth0"},
                    self.folders[index],
                )
            )
        return started


@pytest.fixture
def machines(tmp_path) -> Iterator:
    with ExitStack() as stack:
        yield lambda number: stack.enter_context(Machines(number, tmp_path))


def report(jobs: list[Torchrun]) -> str:
    return "\n=====\n".join(job.output() for job in jobs)


def until_saved(jobs: list[Torchrun], folders: list[Path]) -> None:
    """Wait until some machine has a checkpoint of step 4."""
    deadline = time.monotonic() + 100
    while not any(list(folder.glob("runs/*/checkpoints/step-000004")) for folder in folders):
        assert time.monotonic() < deadline, report(jobs)
        time.sleep(0.05)


def slow_config(tmp_path, **changes):
    hooks = {"slow": {"seconds": 0.1}, "checkpoint": {"every": "2 steps"}}
    return write_config(tmp_path, **{"train__epochs": STEPS // 5, "hooks": hooks} | changes)


def test_a_link_that_stays_cut_ends_the_job_and_the_run_goes_on_where_its_folder_is(machines, tmp_path):
    """No rank waits for ever. Healed, rank 0 is started where the run is not, and the other leads."""
    config = slow_config(tmp_path, distributed={"threads": 1, "timeout": "8 s"})
    two = machines(2)
    with ExitStack() as stack:
        jobs = [stack.enter_context(job) for job in two.run([0, 1], [config, "--resume"])]
        until_saved(jobs, two.folders)
        two.link(1, "down")
        has_run = next(index for index, folder in enumerate(two.folders) if (folder / "runs").exists())
        assert jobs[has_run].wait(timeout=90) != 0, report(jobs)
    two.link(1, "up")
    with ExitStack() as stack:
        started = two.run([1 - has_run, has_run], [config, "--resume"])
        jobs = [stack.enter_context(job) for job in started]
        assert [job.wait() for job in jobs] == [0, 0], report(jobs)
    assert not (two.folders[1 - has_run] / "runs").exists()
    run = only_run(two.folders[has_run] / "runs")
    record = record_of(run)
    assert record["status"] == "completed" and record["attempts"][1]["first_step"] >= 5
    assert [row["step"] for row in rows_of(run) if "train/loss" in row] == list(range(1, STEPS + 1))


def test_a_bad_link_and_a_short_cut_cost_time_only(machines, tmp_path):
    """Three machines; packets are lost and late, and one machine is out of reach for 3 s."""
    three = machines(3)
    for index in range(3):
        three.worsen(index)
    with ExitStack() as stack:
        jobs = [stack.enter_context(job) for job in three.run([0, 1, 2], [slow_config(tmp_path)])]
        until_saved(jobs, three.folders)
        three.link(2, "down")
        time.sleep(3)
        three.link(2, "up")
        assert [job.wait() for job in jobs] == [0, 0, 0], report(jobs)
    (run,) = [path for folder in three.folders for path in folder.glob("runs/*") if path.is_dir()]
    assert [row["step"] for row in rows_of(run) if "train/loss" in row] == list(range(1, STEPS + 1))


@pytest.mark.parametrize("launcher", [False, True], ids=["rank", "machine"])
def test_the_last_rank_of_a_machine_is_missed_on_the_others(machines, tmp_path, launcher):
    """HNG-06: nobody on its own machine is left to tell of it; the timeout of a collective is 10 minutes."""
    config = slow_config(tmp_path, train__epochs=1000, distributed={"threads": 1})
    two = machines(2)
    with ExitStack() as stack:
        jobs = [stack.enter_context(job) for job in two.run([0, 1], [config])]
        until_saved(jobs, two.folders)
        has_run = next(index for index, folder in enumerate(two.folders) if (folder / "runs").exists())
        two.kill(1 - has_run, launcher=launcher)
        assert jobs[has_run].wait(timeout=60) != 0, report(jobs)
        assert jobs[1 - has_run].wait(timeout=60) != 0, report(jobs)
    record = record_of(only_run(two.folders[has_run] / "runs"))
    assert record["status"] == "failed", report(jobs)
    failure = record["failure"]
    assert (failure["rank"], failure["type"]) == (1, "RankLost") and failure["step"] >= 4, failure
    assert jobs[has_run].output().count(" failed in ") == 1, report(jobs)
