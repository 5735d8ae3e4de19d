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
    words = [re.sub(r'^"?\$.*', "1", word) for word in line.replace('"$first_node:$port"', "a:1").split()]
    options = parse_args(words)  # type: ignore[no-untyped-call]
    assert options.training_script == "pipeline" and options.shutdown_timeout == 240
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.MULTILINE))
    assert directives["ntasks-per-node"] == "1"  # else there would be several launchers on a node
    _, seconds = directives["signal"].split("@")
    assert int(seconds) > options.shutdown_timeout


TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def faults(value, schema, place="job"):
    """What an operator would refuse: unknown fields, missing ones, other types."""
    if isinstance(schema, str):
        return [] if type(value) is TYPES[schema] else [f"{place} is no {schema}"]
    if isinstance(schema, list):
        return [
            fault for index, one in enumerate(value) for fault in faults(one, schema[0], f"{place}[{index}]")
        ]
    fields = {name.rstrip("!"): field for name, field in schema.items()}
    missing = [name.rstrip("!") for name in schema if name.endswith("!") and name.rstrip("!") not in value]
    found = [f"{place}.{name} is missing" for name in missing]
    for name, one in value.items():
        field = fields.get(name, fields.get("*"))
        found += faults(one, field, f"{place}.{name}") if field else [f"{place}.{name} is unknown"]
    return found


def test_the_kubernetes_manifest_fits_the_operator_s_schema():
    """Every field is known, of its type, and none is missing."""
    schema = yaml.safe_load(Path(__file__).with_name("pytorchjob.yaml").read_text())
    job = yaml.safe_load((ROOT / "examples" / "kubernetes.yaml").read_text())
    assert faults(job, schema) == []
    job["spec"]["elasticPolicy"] |= {"maxRestart": 3, "minReplicas": "2"}
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"]
    assert faults(job, schema) == [
        "job.spec.elasticPolicy.minReplicas is no integer",
        "job.spec.elasticPolicy.maxRestart is unknown",
        "job.spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].name is missing",
    ]


def test_the_kubernetes_manifest_has_what_the_operator_requires():
    """PyTorchJob, kubeflow.org/v1: the replica specs, a container called pytorch, and a grace period."""
    from torch.distributed.run import parse_args

    job = yaml.safe_load((ROOT / "examples" / "kubernetes.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    spec = job["spec"]
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
