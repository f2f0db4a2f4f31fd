"""A run without any training: the base model over a log that it has never met.

The first hours of the log only fill the detector's memory and give the threshold; the rest is scored. What is
left in the folder is a run like any other, so that later nights go on from it.
"""

from __future__ import annotations

from pathlib import Path

from entente.config import parse_experiment
from entente.detectors.behaviour.base_model import base_weights
from entente.errors import UsageError
from entente.logs.events import read_manifest
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runs.records import TrainingRecord
from entente.runtime.assembly import load_dataset
from entente.runtime.local import Run, finish

HOUR = 3600.0
LEAST = 2.0
"""Windows that must be left to be scored."""


def begin_with_base(folder: RunFolder, events: Path, warm_up: float) -> Run:
    """Make `folder` a run of the base model: `warm_up` hours to get to know the log, the rest scored."""
    manifest = read_manifest(events)
    experiment = parse_experiment(
        {
            "mode": "non-fl",
            "detector": {"name": "behaviour"},
            "data": {"events": str(events.resolve()), "train": warm_up * HOUR},
        }
    )
    hours = (manifest.last_time - manifest.first_time) / MICROSECONDS / HOUR
    if hours < warm_up + LEAST * experiment.data.window / HOUR:
        raise UsageError(
            f"covers {hours:.1f} hours, and the base model first watches for {warm_up:g}",
            where=events,
            remedy="Give a longer log, or a shorter --warm-up (a day at least tells day from night).",
        )
    with folder.locked():
        folder.begin(experiment, resume=False)
        record = TrainingRecord(stopped="the base model, not trained on this log")
        return finish(experiment, folder, load_dataset(experiment), {"": base_weights()}, {"": record}, ())
