"""What this start of the command is to do: begin a run, go on with one, or nothing any more.

Decided by rank 0 alone (see ``meeting`` for which process that is), before any process group exists,
and told to the others as plain data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pipeline.api.settings import LENGTH_KEYS
from pipeline.cli.changed_code import changed_files
from pipeline.cli.changes import accepted_changes
from pipeline.cli.loading import Loaded
from pipeline.cli.naming import parse_parent
from pipeline.cli.records import Placement, new_record, next_attempt
from pipeline.cli.search import run_to_resume
from pipeline.cli.seed import seed_of
from pipeline.cli.wish import Wish
from pipeline.config.config import to_toml
from pipeline.config.masking import mask, mask_file
from pipeline.errors import RunError
from pipeline.runs import metric_log
from pipeline.runs.checkpoints import Checkpoint
from pipeline.runs.create import create, replace_config
from pipeline.runs.gitinfo import read_code
from pipeline.runs.layout import RunFolder
from pipeline.runs.leftovers import clear_leftovers
from pipeline.runs.listing import find_run
from pipeline.runs.liveness import last_sign, status_now
from pipeline.runs.record import Change, Parent, Record, read, write
from pipeline.runs.store import CheckpointStore

Say = Callable[[str], None]


@dataclass(frozen=True)
class Decision:
    """What all ranks do."""

    folder: str
    seed: int
    checkpoint: str | None = None
    """The checkpoint of the run itself to go on from."""
    changed: tuple[str, ...] = ()
    """Config keys that have changed since that checkpoint."""
    accepted: tuple[str, ...] = ()
    """Those that count although the checkpoint has other values."""
    parent_folder: str | None = None
    parent_checkpoint: str | None = None
    """The checkpoint of another run whose weights to start with."""
    finished: bool = False
    """The run is complete: there is nothing to do."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Decision:
        return cls(**json.loads(text))


def decide(loaded: Loaded, wish: Wish, placement: Placement, say: Say, *, known_steps: int = 0) -> Decision:
    """Find or make the run folder.

    Args:
        known_steps: how far the run has come by the record of any host.

    Raises:
        ConfigError: if the config cannot be taken into the run that is resumed.
        RunError, CheckpointError: if the folder or its checkpoints are at fault.
    """
    folder = run_to_resume(loaded, wish)
    if folder is None:
        if wish.resume:
            say(f"no run of this experiment in {wish.runs_dir}: a new one begins")
        return _begin(loaded, wish, placement, say)
    return _go_on(loaded, wish, folder, placement, say, known_steps)


def _begin(loaded: Loaded, wish: Wish, placement: Placement, say: Say) -> Decision:
    """Make the folder of a new run."""
    config = loaded.config
    drawn = config.plan.seed is None
    seed = seed_of(config.plan)
    parent = parse_parent(wish.parent, wish.runs_dir) if wish.parent else None
    code = read_code(Path(config.path).absolute().parent, leave_out=wish.runs_dir)
    record = new_record(
        loaded,
        command=wish.command,
        seed=seed,
        seed_drawn=drawn,
        placement=placement,
        parent=Parent(parent[0].name, parent[1].name if parent[1] else None) if parent else None,
        git=code.git,
    )
    folder = create(
        wish.runs_dir,
        record,
        config_toml=to_toml(config, seed),
        sources=[(source.path, mask_file(source.text, config.hidden)) for source in config.sources],
        patch=mask(code.patch, config.hidden),
    )
    say(f"run folder: {folder.path}")
    if drawn:
        say(f"seed: {seed} (drawn; set seed = {seed} to repeat this run)")
    return Decision(
        str(folder.path),
        seed,
        parent_folder=str(parent[0].path) if parent else None,
        parent_checkpoint=parent[1].name if parent and parent[1] else None,
    )


def _go_on(
    loaded: Loaded,
    wish: Wish,
    folder: RunFolder,
    placement: Placement,
    say: Say,
    known_steps: int,
) -> Decision:
    """Bring the folder of a run to its newest sound checkpoint, with the config that is now in force."""
    record = read(folder)
    if not wish.restart and status_now(folder, record) == "running":
        raise RunError(f"{folder.path} is running (process {record.pid} on {record.host}); stop it first")
    for line in changed_files(record, loaded):
        say(f"warning: {line}")
    seen_alive = datetime.fromtimestamp(last_sign(folder)).astimezone()  # before anything is written
    changes = accepted_changes(loaded, folder, record.seed, accept=wish.accept_changes, say=say)
    if record.status == "completed" and not _more_is_asked(record, changes):
        say(f"{folder.path} is complete after {record.steps} steps: nothing to do")
        return Decision(str(folder.path), record.seed, finished=True)
    checkpoint = _newest_checkpoint(folder, say)
    step = checkpoint.step if checkpoint else 0
    starts_from_parent = checkpoint is None and record.parent is not None and bool(record.parent.checkpoint)
    say(f"resuming {folder.path} " + (f"from {checkpoint.name}" if checkpoint else "from its beginning"))
    reached = max(record.steps, known_steps)
    if reached > step:
        say(f"steps {step + 1} to {reached} are repeated")
    attempt = len(record.attempts)
    moved = metric_log.rewind(
        folder.metrics,
        step,
        attempt=attempt,
        on_damage=lambda error: say(f"warning: {error}; it is moved aside"),
    )
    if moved:
        say(f"{moved} rows of metrics.jsonl past step {step} were moved aside")
    CheckpointStore(folder.checkpoints).rewind(step)
    replace_config(folder, to_toml(loaded.config, record.seed), attempt=attempt)
    write(
        folder,
        next_attempt(
            record,
            loaded,
            command=wish.command,
            first_step=step + 1,
            last_sign=seen_alive,
            placement=placement,
            changes=changes,
        ),
    )
    return Decision(
        str(folder.path),
        record.seed,
        checkpoint=checkpoint.name if checkpoint else None,
        changed=tuple(change.key for change in changes),
        accepted=tuple(change.key for change in changes if change.effect == "accepted"),
        parent_folder=str(_parent_folder(record, wish)) if starts_from_parent else None,
        parent_checkpoint=record.parent.checkpoint if starts_from_parent and record.parent else None,
    )


def _more_is_asked(record: Record, changes: Sequence[Change]) -> bool:
    """Whether a completed run has another length now, or may have lost the hook that ended it early."""
    keys = [change.key for change in changes]
    return not LENGTH_KEYS.isdisjoint(keys) or (
        bool(record.reason) and any(key.startswith("hooks") for key in keys)
    )


def _newest_checkpoint(folder: RunFolder, say: Say) -> Checkpoint | None:
    """The newest sound checkpoint; None where the run was ended before its first."""
    store = CheckpointStore(folder.checkpoints)
    store.clean()
    clear_leftovers(folder.path)
    newest, problems = store.newest_sound()
    for problem in problems:
        say(f"warning: damaged checkpoint passed over: {problem}")
    if newest is None and problems:
        raise RunError(
            f"{folder.path} has no sound checkpoint left; start a new run, or put a sound one back"
        )
    return newest


def _parent_folder(record: Record, wish: Wish) -> Path:
    """The run whose weights this one starts with, once more.

    Raises:
        RunError: if it is not there any more.
    """
    return find_run(wish.runs_dir, record.parent.run).path if record.parent else Path()
