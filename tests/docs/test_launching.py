"""The launch scripts are what their programs take."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent.parent


def test_the_slurm_script_is_a_script_whose_launcher_takes_its_options():
    """bash parses it; torchrun parses its line."""
    from torch.distributed.run import parse_args

    script = ROOT / "examples" / "slurm.sh"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    text = script.read_text().replace("\\\n", " ")
    (line,) = re.findall(r"-m torch\.distributed\.run (.*)", text)
    words = [re.sub(r'^"?\$.*', "1", word) for word in line.replace('"$first_node:29400"', "a:1").split()]
    options = parse_args(words)  # type: ignore[no-untyped-call]
    assert options.training_script == "pipeline" and options.shutdown_timeout == 240
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.MULTILINE))
    assert directives["ntasks-per-node"] == "1"  # else there would be several launchers on a node
    _, seconds = directives["signal"].split("@")
    assert int(seconds) > options.shutdown_timeout


def test_the_kubernetes_manifest_has_what_the_operator_requires():
    """PyTorchJob, kubeflow.org/v1: the replica specs, a container called pytorch, and a grace period."""
    from torch.distributed.run import parse_args

    job = yaml.safe_load((ROOT / "examples" / "kubernetes.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    spec = job["spec"]
    assert set(spec) <= {"nprocPerNode", "elasticPolicy", "runPolicy", "pytorchReplicaSpecs"}
    assert isinstance(spec["nprocPerNode"], str)
    assert set(spec["pytorchReplicaSpecs"]) <= {"Master", "Worker"}
    worker = spec["pytorchReplicaSpecs"]["Worker"]
    elastic = spec["elasticPolicy"]
    assert elastic["minReplicas"] <= worker["replicas"] <= elastic["maxReplicas"]
    assert worker["restartPolicy"] in {"Always", "OnFailure", "Never", "ExitCode"}
    pod = worker["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "pytorch" and container["image"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    options = parse_args(container["command"][1:])  # type: ignore[no-untyped-call]
    assert options.shutdown_timeout < pod["terminationGracePeriodSeconds"]
    assert options.training_script == "pipeline"
