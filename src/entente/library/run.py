"""A finished run, to look at and to detect with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from entente.config import Experiment
from entente.detection.alerts import Alert
from entente.detection.table import read_table
from entente.errors import StorageError
from entente.federation.records import RoundRecord
from entente.library.frames import event_table
from entente.logs.events import write_events
from entente.runs.folder import RunFolder
from entente.runs.records import ModelCard, RunMetrics
from entente.runtime.detecting import Night
from entente.runtime.detecting import detect as detect_in_files

SCRATCH = "entente-"
"""How folders begin that hold a frame's events for the length of a call."""


@dataclass(frozen=True)
class TrainedRun:
    """A run folder of `entente train` or `entente.train`, read when it is asked.

    >>> run = entente.load_run("run")
    >>> run
    TrainedRun('run')
    >>> run.experiment.detector.name
    'behaviour'
    >>> len(run.rounds) > 0
    True
    """

    folder: RunFolder

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def experiment(self) -> Experiment:
        """The resolved experiment, seeds included."""
        return self.folder.experiment()

    @cached_property
    def metrics(self) -> RunMetrics:
        """Figures of the test windows: `overall`, `per_silo`, `baselines`."""
        return self.folder.metrics()

    @cached_property
    def rounds(self) -> list[RoundRecord]:
        """One record per round."""
        return self.folder.rounds()

    @cached_property
    def card(self) -> ModelCard:
        """What is known of the model: detector, thresholds, how training ended, privacy."""
        return self.folder.card()

    @cached_property
    def alerts(self) -> tuple[Alert, ...]:
        """What was raised in the test windows, with evidence."""
        return read_table(self.path / "alerts.parquet").alerts

    def scores(self) -> pa.Table:
        """Every test edge with its score: window, src, dst, score, threshold, alert, silo ..."""
        try:
            return parquet.read_table(self.path / "scores.parquet")
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot be read ({error})", where=self.path / "scores.parquet") from error

    def detect(self, events: Any, **options: Any) -> Night:
        """`entente.detect` with this run."""
        return detect_events(self.folder, events, **options)

    def __repr__(self) -> str:
        return f"TrainedRun({str(self.path)!r})"


def detect_events(
    folder: RunFolder,
    events: Any,
    *,
    silos: Sequence[str] = (),
    state: str | os.PathLike[str] | None = None,
    partition: str | os.PathLike[str] | None = None,
    time_unit: str | None = None,
) -> Night:
    """New events, in an event directory or a frame, through a run's model."""
    from tempfile import TemporaryDirectory

    memory = None if state is None else RunFolder(Path(state))
    table = None if partition is None else Path(partition)
    if isinstance(events, str | os.PathLike):
        return detect_in_files(folder, Path(events), silos, memory, table)
    with TemporaryDirectory(prefix=SCRATCH) as scratch:
        stored = Path(scratch) / "events"
        write_events(event_table(events, time_unit=time_unit), stored)
        return detect_in_files(folder, stored, silos, memory, table)
