"""Event files for TensorBoard (extra `tensorboard`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from entente.config import Experiment, to_toml
from entente.errors import MissingExtraError
from entente.federation.records import RoundRecord
from entente.runs.folder import RunFolder
from entente.runtime.trackers.base import Tracker, round_figures


class TensorBoard(Tracker):
    name = "tensorboard"
    summary = "Event files: `tensorboard --logdir RUN/tracking/tensorboard`."

    def __init__(self, folder: RunFolder, experiment: Experiment) -> None:
        super().__init__(folder, experiment)
        try:
            # By name: its types depend on whether the extra is installed.
            make: Any = import_module("torch.utils.tensorboard").SummaryWriter
        except ImportError as error:
            raise MissingExtraError(
                "TensorBoard is not installed", remedy="pip install 'entente[tensorboard]'"
            ) from error
        self._writer = make(str(self.path))
        settings = "".join(f"    {line}\n" for line in to_toml(experiment).splitlines())
        self._writer.add_text("experiment", settings, 0)

    def round(self, record: RoundRecord) -> None:
        for name, value in round_figures(record):
            self._writer.add_scalar(name, value, record.round)
        self._writer.flush()

    def finish(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, 0)

    def close(self) -> None:
        self._writer.close()
