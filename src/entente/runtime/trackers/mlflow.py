"""A run in an MLflow database of its own (extra `mlflow`): SQLite and a folder of artefacts, no server."""

from __future__ import annotations

import logging
import os
import re

from entente.artifacts import read_json, write_json
from entente.config import Experiment
from entente.errors import MissingExtraError
from entente.federation.records import RoundRecord
from entente.runs.folder import RunFolder
from entente.runtime.trackers.base import ARTEFACTS, Tracker, round_figures

MARK = "run.json"
"""Beside the database: the MLflow run that a resumed training goes on with."""
SILENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_DISABLE_ENV_CREATION": "true"}
"""MLflow reports its use over the network unless it is told not to before it is imported."""


class MlFlow(Tracker):
    name = "mlflow"
    summary = "A database: `mlflow ui --backend-store-uri sqlite:///RUN/tracking/mlflow/mlflow.db`."

    def __init__(self, folder: RunFolder, experiment: Experiment) -> None:
        super().__init__(folder, experiment)
        os.environ.update(SILENT)
        try:
            import alembic  # noqa: F401 - what MLflow's database needs beside MLflow
            from mlflow import MlflowClient
        except ImportError as error:
            raise MissingExtraError(
                "MLflow is not installed", remedy="pip install 'entente[mlflow]'"
            ) from error
        for chatty in ("mlflow", "alembic"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path.resolve()
        self._client = MlflowClient(tracking_uri=f"sqlite:///{path / 'mlflow.db'}")
        mark = path / MARK
        if mark.exists():
            self._run = str(read_json(mark)["run"])
            return
        place = self._client.create_experiment(
            experiment.name, artifact_location=(path / "artefacts").as_uri()
        )
        name = f"{experiment.name}-{experiment.seed}"
        self._run = str(self._client.create_run(place, run_name=name).info.run_id)
        for key, value in _flat(experiment.model_dump(mode="json")).items():
            self._client.log_param(self._run, key, str(value)[:500])
        write_json(mark, {"run": self._run})

    def round(self, record: RoundRecord) -> None:
        for name, value in round_figures(record):
            self._client.log_metric(self._run, _named(name), value, step=record.round)

    def finish(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._client.log_metric(self._run, _named(name), value)
        for name in ARTEFACTS:
            if (self.folder.path / name).is_file():
                self._client.log_artifact(self._run, str(self.folder.path / name))
        self._client.set_terminated(self._run)

    def close(self) -> None:
        """The database is written at every call."""


def _named(name: str) -> str:
    """MLflow allows few characters in a name; silos may be called anything."""
    return re.sub(r"[^\w\-. :/]", "_", name)[:240]


def _flat(table: dict[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
        found |= inner
    return found
