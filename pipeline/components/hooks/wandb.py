"""Runs of Weights & Biases."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pipeline.api.run import Run
from pipeline.components.hooks.run_folder import parent, settings, values_by_step
from pipeline.components.hooks.tracker import Tracker, missing


class WandB(Tracker):
    """Records the run in Weights & Biases: settings, and every metric by step.

    A resumed run goes on under the same id, with each step once. Files are in the folder wandb/ of the
    run; an offline run is sent later with ``wandb sync``, and one that was resumed has all of it in its
    last file.

    Needs the extra: pip install 'pipeline-ddp[wandb]'.

    Args:
        project: the project, made if it is not there.
        entity: the user or team; default: the account's own.
        mode: ``online`` or ``offline``; default: what wandb takes itself, from WANDB_MODE for one.
    """

    def __init__(
        self,
        project: str = "pipeline",
        entity: str | None = None,
        mode: Literal["online", "offline"] | None = None,
    ) -> None:
        super().__init__()
        self.project = project
        self.entity = entity
        self.mode = mode

    def open(self, run: Run) -> None:
        try:
            import wandb
        except ImportError as error:
            raise missing("wandb", "wandb") from error
        folder = run.folder / "wandb"
        if run.step and folder.exists():
            _set_aside(folder)
        with _arguments_hidden():
            self._run: Any = wandb.init(
                project=self.project,
                entity=self.entity,
                mode=self.mode,
                id=_identifier(run.folder),
                name=run.folder.name,
                dir=run.folder,
                resume="allow",
                config={**settings(run.folder), "parent": parent(run.folder)},
                # The run folder has the output, the commit and the machine already.
                settings=wandb.Settings(
                    silent=True, console="off", disable_git=True, save_code=False, init_timeout=30
                ),
            )
        # What wandb was given before a kill may be lost, whatever the step; and what a server has stays.
        self._next = int(self._run.step)
        if run.step:
            for step, values in values_by_step(run.folder, run.step).items():
                self.write(run, step, values)

    def write(self, run: Run, step: int, values: Mapping[str, float]) -> None:
        if step >= self._next:
            self._run.log(dict(values), step=step, commit=True)
            self._next = step + 1
        else:  # of a step that is sent already: the last value is shown, the curve stays
            self._run.summary.update(dict(values))

    def close(self, run: Run, error: BaseException | None) -> None:
        self._run.finish(exit_code=0 if error is None else 1)


def _identifier(folder: Path) -> str:
    """The id under which a resumed run goes on: drawn once, kept in the run folder."""
    file = folder / "wandb.json"
    try:
        return str(json.loads(file.read_text("utf-8"))["id"])
    except FileNotFoundError:
        drawn = secrets.token_hex(8)
        file.write_text(json.dumps({"id": drawn}) + "\n", "utf-8")
        return drawn


@contextmanager
def _arguments_hidden() -> Iterator[None]:
    """wandb records the command line, where ``--set`` may have a secret; run.json has it without."""
    typed = sys.argv
    sys.argv = typed[:1]
    try:
        yield
    finally:
        sys.argv = typed


def _set_aside(folder: Path) -> None:
    """Offline files of former attempts: this one writes all again, and ``wandb sync`` takes both."""
    for file in list(folder.glob("offline-run-*")):
        file.rename(file.with_name(f"former-{file.name}"))
