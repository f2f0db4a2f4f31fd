"""What a tracker is: told of every round by the one loop's watcher, and of the end of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from entente.config import Experiment
from entente.federation.records import RoundRecord
from entente.registry import TRACKERS
from entente.runs.folder import RunFolder
from entente.runtime.loop import Watcher

FOLDER = "tracking"
"""Of a run folder: everything that trackers write lies here, and nowhere else."""
ARTEFACTS = ("experiment.toml", "model.safetensors", "model.json", "metrics.json")
"""Files of a run that are worth keeping beside its curves; alerts and scores name hosts and are left out."""


class Tracker(ABC):
    """One viewer's files below `RUN/tracking/`; nothing leaves the machine."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, folder: RunFolder, experiment: Experiment) -> None:
        """MissingExtraError if what it needs is not installed."""
        self.folder = folder
        self.experiment = experiment

    @property
    def path(self) -> Path:
        """Where this tracker writes."""
        return self.folder.path / FOLDER / self.name

    @abstractmethod
    def round(self, record: RoundRecord) -> None:
        """Told of every round as soon as it is complete."""

    @abstractmethod
    def finish(self, metrics: dict[str, float]) -> None:
        """Told of the figures of the test windows; a coordinator of a deployment has none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files, also after a failure."""


@contextmanager
def tracking(names: Sequence[str], folder: RunFolder, experiment: Experiment) -> Iterator[Watcher]:
    """A watcher that tells the named trackers; they are closed in any case, and finished after a success."""
    with ExitStack() as stack:
        trackers: list[Tracker] = []
        for name in dict.fromkeys(names):
            tracker = TRACKERS.load(name)(folder, experiment)
            stack.callback(tracker.close)
            trackers.append(tracker)

        def watch(record: RoundRecord) -> None:
            for tracker in trackers:
                tracker.round(record)

        yield watch
        metrics = test_figures(folder)
        for tracker in trackers:
            tracker.finish(metrics)


def round_figures(record: RoundRecord) -> Iterator[tuple[str, float]]:
    """The numbers of a round, by name; a silo that trains alone has its own names."""
    prefix = f"{record.silo}/" if record.silo else ""
    whole: dict[str, Any] = {"loss": record.loss, "bound": record.bound}
    if record.validation is not None:
        whole |= {"validation/ap": record.validation.ap, "validation/auc": record.validation.auc}
    whole["refused"] = len(record.refused)
    for name, value in whole.items():
        if value is not None:
            yield prefix + name, float(value)
    for silo, one in record.silos.items():
        for name in ("j", "s", "d", "r", "norm", "seconds", "bytes_up", "bytes_down"):
            value = getattr(one, name)
            if value is not None:
                yield f"{prefix}silo/{silo}/{name}", float(value)


def test_figures(folder: RunFolder) -> dict[str, float]:
    """The main figures of the test windows: overall, of each silo and of the baselines."""
    if not (folder.path / "metrics.json").is_file():
        return {}
    metrics = folder.metrics()
    parts = {"test": metrics.overall}
    parts |= {f"test/silo/{name}": found for name, found in metrics.per_silo.items()}
    parts |= {f"test/baseline/{name}": found for name, found in metrics.baselines.items()}
    return {
        f"{part}/{name}": float(value)
        for part, found in parts.items()
        for name in ("ap", "auc", "recall", "precision", "alerts_per_day")
        if (value := getattr(found, name)) is not None
    }
