"""MLflow runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.api.run import Run
from pipeline.components.hooks.run_folder import flat_settings, parent
from pipeline.components.hooks.tracker import Tracker, missing

if TYPE_CHECKING:
    from mlflow import MlflowClient

_FILE = "mlflow.json"  # in the run folder: the id under which a resumed run goes on
_LONGEST = 6000  # characters of a parameter's value
_BATCH = 100  # parameters of one request
# A server that is gone is to cost the training seconds, not the many minutes of MLflow's own defaults.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


class MLflow(Tracker):
    """Records the run in MLflow: settings as parameters, every metric by step, the record as artifacts.

    A resumed run goes on in the same MLflow run, and steps that it does again are not written twice. A
    parameter cannot be changed in MLflow: one that a resumed run has otherwise becomes the tag
    ``changed.KEY``. A run started from another is nested under it.

    Needs the extra: pip install 'pipeline-ddp[mlflow]'.

    Args:
        tracking_uri: where the runs are kept, as ``sqlite:///mlflow.db`` or a server's address; default:
            what MLflow takes itself, from MLFLOW_TRACKING_URI for one.
        experiment: the MLflow experiment, made if it is not there.
        artifacts: whether config.toml, run.json and metrics.jsonl are copied when the run ends.
    """

    def __init__(
        self, tracking_uri: str | None = None, experiment: str = "pipeline", artifacts: bool = True
    ) -> None:
        super().__init__()
        self.tracking_uri = tracking_uri
        self.experiment = experiment
        self.artifacts = artifacts

    def open(self, run: Run) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise missing("mlflow", "mlflow") from error
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        self._client: MlflowClient = MlflowClient(self.tracking_uri)
        known = _known_id(run.folder)
        self._id = known or self._create(run)
        self._is_resumed = known is not None
        self._written: dict[str, set[int]] = {}
        if known:
            self._client.update_run(known, status="RUNNING")
        self._write_settings(run.folder)

    def write(self, run: Run, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = time.time_ns() // 1_000_000
        new = [name for name in values if step not in self._steps_of(name)]
        self._client.log_batch(self._id, metrics=[Metric(name, values[name], now, step) for name in new])
        for name in new:
            self._written[name].add(step)

    def close(self, run: Run, error: BaseException | None) -> None:
        if self.artifacts:
            for name in ("config.toml", "run.json", "metrics.jsonl"):
                if (run.folder / name).exists():
                    self._client.log_artifact(self._id, str(run.folder / name))
        self._client.set_terminated(self._id, "FINISHED" if error is None else "FAILED")

    def _create(self, run: Run) -> str:
        found = self._client.get_experiment_by_name(self.experiment)
        experiment = (
            found.experiment_id
            if found
            else self._client.create_experiment(
                self.experiment, artifact_location=_artifacts(self.tracking_uri)
            )
        )
        tags = {"pipeline.run": run.folder.name}
        parent_name = parent(run.folder)
        if parent_name is not None:
            tags["pipeline.parent"] = parent_name
            parent_id = _known_id(run.folder.parent / parent_name)
            if parent_id is not None:
                tags["mlflow.parentRunId"] = parent_id
        created = self._client.create_run(experiment, tags=tags, run_name=run.folder.name)
        identifier = str(created.info.run_id)
        (run.folder / _FILE).write_text(json.dumps({"run_id": identifier}) + "\n", "utf-8")
        return identifier

    def _write_settings(self, folder: Path) -> None:
        from mlflow.entities import Param, RunTag

        there = self._client.get_run(self._id).data.params
        now = {name: str(value)[:_LONGEST] for name, value in flat_settings(folder).items()}
        new = [Param(name, value) for name, value in now.items() if name not in there]
        for first in range(0, len(new), _BATCH):
            self._client.log_batch(self._id, params=new[first : first + _BATCH])
        changed = [
            RunTag(f"changed.{name}", value) for name, value in now.items() if there.get(name, value) != value
        ]
        self._client.log_batch(self._id, tags=changed)

    def _steps_of(self, name: str) -> set[int]:
        """Steps that have this metric already, by an attempt that was killed past its checkpoint too."""
        if name not in self._written:
            history = self._client.get_metric_history(self._id, name) if self._is_resumed else []
            self._written[name] = {point.step for point in history}
        return self._written[name]


def _artifacts(tracking_uri: str | None) -> str | None:
    """The folder mlruns beside a SQLite file, not in whatever folder a run is started from."""
    from mlflow import get_tracking_uri

    scheme, _, path = (tracking_uri or get_tracking_uri()).partition(":///")
    return (Path(path).absolute().parent / "mlruns").as_uri() if scheme == "sqlite" else None


def _known_id(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / _FILE).read_text("utf-8"))["run_id"])
    except FileNotFoundError:
        return None
