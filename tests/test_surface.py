"""The public surface, frozen: a change of it is a decision, and shows here."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import click
import pytest

import pipeline
from pipeline.api.metric_name import MetricName

ROOT = Path(__file__).parent.parent

NAMES = [
    "CheckpointError",
    "ComponentError",
    "ConfigError",
    "EpochSampler",
    "Hook",
    "Metric",
    "MetricName",
    "Outcome",
    "PipelineError",
    "Problem",
    "Run",
    "RunError",
    "check",
    "diff",
    "load_config",
    "register",
    "run",
]

COMPONENTS = {
    "pipeline.models": "char_transformer convnet mlp",
    "pipeline.datasets": "digits random tensors text",
    "pipeline.objectives": "cross_entropy language_modelling model_loss mse",
    "pipeline.optimizers": """
        adadelta adafactor adagrad adam adamax adamw asgd lbfgs muon nadam radam rmsprop rprop sgd sparse_adam
    """,
    "pipeline.schedulers": """
        chained_scheduler constant constant_lr cosine_annealing_lr cosine_annealing_warm_restarts cyclic_lr
        exponential_lr lambda_lr linear_lr multi_step_lr multiplicative_lr one_cycle_lr polynomial_lr
        reduce_lr_on_plateau sequential_lr step_lr warmup_cosine warmup_linear
    """,
    "pipeline.samplers": "sequential shuffle torch weighted",
    "pipeline.metrics": "accuracy mean_absolute_error perplexity torchmetrics",
    "pipeline.hooks": """
        checkpoint csv early_stopping ema lr_monitor mlflow nan_guard optuna_pruning profiler progress
        tensorboard throughput wandb
    """,
}


COMMANDS = {
    "run": """
        CONFIG --set --unset --resume --accept-changes --from --runs-dir --name --nproc
    """,
    "check": "CONFIG --set --unset --world-size --json --resolved",
    "verify": "CONFIG --set --unset --steps --world-sizes --json",
    "evaluate": "RUN --checkpoint --set --unset --runs-dir --nproc --json",
    "predict": "RUN --dataset -o --output --checkpoint --set --unset --runs-dir --nproc",
    "components": "KIND NAME --json --load",
    "schema": "",
    "new": "DIR",
    "diff": "A B ... --json --markdown --runs-dir",
    "runs": "--json --csv --watch --tree --where --sort --limit --runs-dir",
    "report": "[RUN ...] -o --output --watch --port --runs-dir",
    "sweep": "CONFIG --grid --optuna --search --jobs --set --unset --runs-dir --nproc",
}


def test_the_package_exports_these_names_and_no_others():
    assert pipeline.__all__ == NAMES
    assert sorted(pipeline._HOMES) == NAMES
    assert dir(pipeline) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name):
    given = getattr(pipeline, name)
    assert given is MetricName if name == "MetricName" else given.__name__ == name


def test_any_other_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Trainer'"):
        pipeline.Trainer  # noqa: B018


def test_importing_the_package_imports_none_of_its_parts():
    code = "import sys, pipeline; print(*{'torch', 'numpy', 'pipeline.api', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "module", ["pipeline.errors", "pipeline.config", "pipeline.runs", "pipeline.api.hook", "pipeline.api.run"]
)
def test_these_modules_do_without_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("group", COMPONENTS)
def test_the_built_in_components(group):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][group]
    assert sorted(declared) == sorted(COMPONENTS[group].split())


def test_there_are_eight_kinds():
    from pipeline.api.kinds import RULES

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert set(groups) == set(COMPONENTS) == {rules.group for rules in RULES.values()}


@pytest.mark.parametrize("group", COMPONENTS)
def test_the_installed_package_declares_what_pyproject_does(group):
    installed = [entry for entry in distribution("pipeline-ddp").entry_points if entry.group == group]
    assert sorted(entry.name for entry in installed) == sorted(COMPONENTS[group].split())


def test_the_commands():
    from pipeline.cli.main import main

    assert main.list_commands(click.Context(main)) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command(name):
    from pipeline.cli.main import main

    command = main.get_command(click.Context(main), name)
    assert command is not None
    taken: list[str] = []
    for parameter in command.params:
        is_option = isinstance(parameter, click.Option)
        taken += parameter.opts if is_option else parameter.human_readable_name.split()
    assert sorted(taken) == sorted(COMMANDS[name].split())
