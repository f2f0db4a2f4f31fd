"""The runs that the console can show: the given one, its neighbours, the site's and those it started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entente.config import Experiment
from entente.console.desk import Missing
from entente.console.settings import ConsoleSettings
from entente.deployment.site import RunState
from entente.errors import EntenteError
from entente.federation.records import PrivacyRecord, RoundRecord
from entente.report.run import method_name
from entente.runs.folder import EXPERIMENT, METRICS, RunFolder
from entente.runs.records import RunMetrics

MOST_RUNS = 500
MOST_ROUNDS = 2000


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run folder, read as far as it can be."""

    name: str
    path: Path
    experiment: Experiment | None
    rounds: tuple[RoundRecord, ...]
    metrics: RunMetrics | None
    state: dict[str, Any]  # of a deployed run: phase, reason, warnings
    problem: str | None

    @property
    def trained(self) -> tuple[RoundRecord, ...]:
        return tuple(record for record in self.rounds if record.trained)

    @property
    def phase(self) -> str:
        if self.state.get("phase"):
            return str(self.state["phase"])
        return "done" if self.metrics is not None else "unfinished" if self.rounds else "not begun"

    @property
    def method(self) -> str:
        try:
            return method_name(self.experiment) if self.experiment is not None else "unknown"
        except EntenteError:
            return "unknown"

    @property
    def silos(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(silo for record in self.rounds for silo in record.silos))

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys([*self.state.get("warnings", ()), *(w for r in self.rounds for w in r.warnings)])
        )

    @property
    def check(self) -> str:
        """What a silo judges a round's model by, in words."""
        planted = self.experiment is not None and self.experiment.detector.name == "behaviour"
        return "campaigns planted into its held-out windows (canaries)" if planted else "its held-out edges"

    @property
    def privacy(self) -> PrivacyRecord | None:
        """What the noise of all releases so far guarantees; None before the first and without noise."""
        told = [record.privacy for record in self.rounds if record.privacy is not None]
        return told[-1] if told else None

    def series(self) -> list[list[Any]]:
        """Rounds, validation AP, AUC and loss, for a chart."""

        def of(record: RoundRecord, field: str) -> float | None:
            return getattr(record.validation, field) if record.validation is not None else None

        records = [record for record in self.trained if not record.silo]
        return [
            [record.round for record in records],
            [of(record, "ap") for record in records],
            [of(record, "auc") for record in records],
            [record.loss for record in records],
        ]

    def by_silo(self, field: str) -> list[list[Any]]:
        """Rounds and one column of a silo's record per silo, for a chart."""
        records = [record for record in self.trained if not record.silo]
        columns: list[list[Any]] = [[record.round for record in records]]
        for silo in self.silos:
            columns.append([getattr(r.silos[silo], field) if silo in r.silos else None for r in records])
        if field == "norm":
            columns.append([record.bound for record in records])
        return columns


class ShownRuns:
    """Run folders by name; nothing outside the given places can be named."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings

    def folders(self) -> dict[str, Path]:
        """Name -> folder; two of one name are told apart by where they are."""
        found: dict[str, Path] = {}
        for path in self._places():
            if (path / EXPERIMENT).is_file() and path not in found.values():
                name = path.name if path.name not in found else f"{path.parent.parent.name}-{path.name}"
                found[name] = path
        return dict(list(found.items())[:MOST_RUNS])

    def _places(self) -> Iterable[Path]:
        settings = self._settings
        if settings.run is not None:
            run = settings.run.resolve()
            yield run
            yield from sorted(path for path in run.parent.glob("*") if path.is_dir() and path != run)
        if settings.kit is not None:
            yield from sorted((settings.kit.resolve() / "runs").glob("*"))
        if settings.experiments is not None:
            yield from sorted((settings.experiments.resolve() / "runs").glob("*"))

    def path(self, name: str) -> Path:
        folder = self.folders().get(name)
        if folder is None:
            raise Missing(f"there is no run {name[:80]!r}", remedy="The list of runs has those there are.")
        return folder

    def get(self, name: str) -> ShownRun:
        return read_run(name, self.path(name))

    def all(self) -> list[ShownRun]:
        return [read_run(name, path) for name, path in self.folders().items()]


def read_run(name: str, path: Path) -> ShownRun:
    """What can be read of a run; what cannot be is told, not raised."""
    folder, problem = RunFolder(path), None
    experiment: Experiment | None = None
    rounds: tuple[RoundRecord, ...] = ()
    metrics: RunMetrics | None = None
    try:
        experiment = folder.experiment()
        rounds = tuple(folder.rounds()[-MOST_ROUNDS:])
        metrics = folder.metrics() if (path / METRICS).is_file() else None
    except EntenteError as error:
        problem = str(error)
    return ShownRun(name, path, experiment, rounds, metrics, RunState(path).read(), problem)


def compare(one: ShownRun, other: ShownRun) -> dict[str, Any]:
    """Settings that differ, and the figures side by side."""
    settings = []
    if one.experiment is not None and other.experiment is not None:
        a, b = _flat(one.experiment.model_dump(mode="json")), _flat(other.experiment.model_dump(mode="json"))
        settings = [
            (key, a.get(key, "–"), b.get(key, "–")) for key in sorted({*a, *b}) if a.get(key) != b.get(key)
        ]
    figures = []
    if one.metrics is not None and other.metrics is not None:
        for label, field in FIGURES:
            figures.append(
                (label, getattr(one.metrics.overall, field), getattr(other.metrics.overall, field))
            )
    return {"settings": settings, "figures": figures}


FIGURES = (
    ("average precision", "ap"),
    ("AUC", "auc"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("false positive rate", "fpr"),
    ("alerts a day", "alerts_per_day"),
)


def _flat(table: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(table, dict):
        return {prefix: str(table)}
    return {
        k: v
        for key, value in table.items()
        for k, v in _flat(value, f"{prefix}.{key}" if prefix else key).items()
    }
