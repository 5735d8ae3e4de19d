"""The command line: a table of commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from pipeline.cli.output import let_rank_0_speak

_COMMANDS = {
    "run": "Train.",
    "check": "Find what is wrong with a config, without training.",
    "verify": "Prove the promises on a config's own components.",
    "evaluate": "Evaluate a checkpoint of a run.",
    "predict": "Write a checkpoint's outputs for a dataset.",
    "components": "Show what is installed, and from where.",
    "schema": "Write a JSON Schema of configs, for editors.",
    "new": "Make a package of components to start from.",
    "diff": "Show what was different between two runs or configs.",
    "runs": "List the runs.",
    "report": "Write a page of curves, differences and lineage.",
    "sweep": "Run every combination of some values, or those that Optuna chooses.",
}


class _LazyGroup(click.Group):
    """Knows every command's summary, but imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"pipeline.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError:
            let_rank_0_speak()
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="pipeline-ddp")
def main() -> None:
    """Train PyTorch models from a TOML file, the same at any number of processes.

    torchrun -m pipeline run pipeline.toml     trains under torchrun

    pipeline run pipeline.toml --nproc 2       starts the processes itself
    """
