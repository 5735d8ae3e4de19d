"""A Slurm of one machine: the real one where it is installed, else commands that do the same for a script."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.marked import MARK, kill_marked, new_mark

DAEMONS = ("munged", "slurmctld", "slurmd")
PATIENCE = 120.0  # seconds

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


class RealSlurm:
    """Daemons of its own in a folder, on free ports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environ = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), MARK: new_mark()}

    @contextmanager
    def started(self) -> Iterator[RealSlurm]:
        folder = self._folder
        (folder / "state").mkdir(parents=True)
        (folder / "spool").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = {"controller_port": one.getsockname()[1], "node_port": other.getsockname()[1]}
        host, cores = socket.gethostname().partition(".")[0], os.cpu_count()
        (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, host=host, cores=cores, **ports))
        munge = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "pid", "seed-file": "seed"}
        files = [f"--{option}={folder / name}" for option, name in munge.items()]
        with ExitStack() as daemons:
            for line in (
                ["munged", "--foreground", "--force", *files],
                ["slurmctld", "-Dc"],
                ["slurmd", "-D"],
            ):
                daemons.enter_context(self._daemon(line))
            self._wait_for_the_node()
            try:
                yield self
            finally:
                kill_marked(self._environ[MARK])

    def submit(self, script: Path, argument: Path, output: Path, environ: dict[str, str]) -> int:
        """Start the batch script on one node, its output appended to ``output``; gives the job's number."""
        shape = ["--nodes=1", "--cpus-per-task=1", f"--chdir={output.parent}", f"--output={output}"]
        line = ["sbatch", "--parsable", *shape, str(script), str(argument)]
        return int(self._call(line, self._environ | environ))

    def terminate(self, job: int) -> None:
        """What Slurm does when the time is nearly up."""
        self._call(["scancel", "--signal=TERM", f"{job}.0"])

    def is_over(self, job: int) -> bool:
        return self._call(
            ["squeue", "--noheader", "--states=all", "-o", "%T", "-j", str(job)]
        ).strip() not in (
            "PENDING",
            "RUNNING",
            "COMPLETING",
        )

    def _call(self, line: list[str], environ: dict[str, str] | None = None) -> str:
        environ = environ or self._environ
        return subprocess.run(line, env=environ, check=True, capture_output=True, text=True).stdout

    @contextmanager
    def _daemon(self, line: list[str]) -> Iterator[None]:
        with (self._folder / f"{line[0]}.out").open("wb") as out:
            process = subprocess.Popen(
                line, env=self._environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def _wait_for_the_node(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(subprocess.CalledProcessError):
                if self._call(["sinfo", "--noheader", "-o", "%T"]).strip() == "idle":
                    return
            if time.monotonic() > deadline:
                logs = [file.read_text(errors="replace") for file in self._folder.glob("*.[lo][ou][gt]")]
                raise AssertionError("\n".join(["Slurm does not start", *logs]))
            time.sleep(0.1)


SRUN = """\
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
echo $$ > "$STEP_PID"
exec "$@"
"""
SCONTROL = """\
#!/bin/bash
echo "$3"
"""


class StandIn:
    """The batch script run by bash, with commands that do what Slurm's do on one machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = new_mark()
        self._jobs: dict[int, subprocess.Popen[bytes]] = {}

    @contextmanager
    def started(self) -> Iterator[StandIn]:
        self._folder.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (self._folder / name).write_text(text)
            (self._folder / name).chmod(0o755)
        try:
            yield self
        finally:
            kill_marked(self._mark)
            for process in self._jobs.values():
                process.wait()

    def submit(self, script: Path, argument: Path, output: Path, environ: dict[str, str]) -> int:
        number = os.getpid() + len(self._jobs)
        own = {
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "SLURM_JOB_ID": str(number),
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_NODELIST": "localhost",
            "STEP_PID": str(self._folder / f"step-{number}"),
            MARK: self._mark,
        }
        with output.open("ab") as out:
            self._jobs[number] = subprocess.Popen(
                ["bash", str(script), str(argument)],
                env=os.environ | own | environ,
                cwd=output.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        return number

    def terminate(self, job: int) -> None:
        os.kill(int((self._folder / f"step-{job}").read_text()), signal.SIGTERM)

    def is_over(self, job: int) -> bool:
        return self._jobs[job].poll() is not None


def slurm(folder: Path) -> RealSlurm | StandIn:
    """The real one where its daemons are installed and may be started."""
    real = os.geteuid() == 0 and all(map(shutil.which, DAEMONS))
    return RealSlurm(folder) if real else StandIn(folder)
