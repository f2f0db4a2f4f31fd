"""A detector with scikit-learn's manners: `fit` on a frame of events, `score_samples` on later ones."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.config import Experiment, parse_experiment
from entente.errors import UsageError
from entente.library.frames import event_table
from entente.library.run import SCRATCH, TrainedRun
from entente.library.scoring import later_edges, of_events, training_edges
from entente.logs.events import write_events
from entente.logs.schema import MICROSECONDS
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder


class AnomalyDetector:
    """One detector over a frame of events, trained by one silo or by several together.

    Signs are scikit-learn's: `score_samples` is lower the more unusual an event is, `predict` gives -1 for
    what would be an alert and 1 for the rest. An event has the score of its edge: all events of one pair of
    hosts in one window are judged together. Scoring changes nothing; later events are scored with what was
    known at the end of `fit`. All of `fit`'s events are training; none may be an attack that you know of.

    detector: a name of `entente detectors`. window: seconds of one snapshot. rounds: of training. silos:
    mapping host -> silo, or None for one silo. seed: the same one gives the same bits. time_unit: of
    numeric times. settings: further sections of an experiment, for instance `{"detection": {"false_alarms":
    0.01}}`. folder: where the run is kept; a temporary one by default.

    >>> company = entente.datasets.simulated("company", hosts=40, sites=2, days=3)
    >>> frame = company.table().to_pandas()
    >>> quiet = frame.time < company.train * 1e6
    >>> model = entente.AnomalyDetector(rounds=2).fit(frame[quiet])
    >>> scores = model.score_samples(frame[~quiet])
    >>> scores.shape == (int((~quiet).sum()),)
    True
    """

    def __init__(
        self,
        detector: str = "behaviour",
        *,
        window: float = 1800.0,
        rounds: int = 15,
        silos: Mapping[str, str] | None = None,
        seed: int = 0,
        time_unit: str | None = None,
        settings: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.detector = detector
        self.window = window
        self.rounds = rounds
        self.silos = silos
        self.seed = seed
        self.time_unit = time_unit
        self.settings = settings
        self.folder = folder

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on a frame of events; `y` is there for scikit-learn and ignored."""
        from entente.runtime.local import train

        del y
        table = event_table(X, time_unit=self.time_unit)
        if not table.num_rows:
            raise UsageError("fit needs events", remedy="The frame is empty.")
        self._scratch = TemporaryDirectory(prefix=SCRATCH) if self.folder is None else None
        folder = RunFolder(Path(self._scratch.name if self._scratch is not None else self.folder or ""))
        if folder.started:
            raise UsageError("holds a run already", where=folder.path, remedy="Name another `folder`.")
        folder.path.mkdir(parents=True, exist_ok=True)
        write_events(table, folder.path / "events")
        if self.silos is not None:
            write_silos(folder.path / "silos.csv", Assignment.from_mapping(self.silos))
        train(self._experiment(folder.path, table), folder, baselines=())
        self.run_ = TrainedRun(folder)
        self.n_features_in_ = table.num_columns
        self.offset_ = -max(self.run_.card.thresholds.values())
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """How usual each event is, in the order of the rows: the lower, the more unusual."""
        score, _ = self._scored(X)
        return -score.astype(np.float64)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for events whose edge a silo's threshold raises, 1 for the others."""
        _, alert = self._scored(X)
        return np.where(alert, -1, 1)

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """`fit`, then `predict` on the same events, each judged by what was known before its window."""
        return self.fit(X, y).predict(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as scikit-learn asks for them."""
        del deep
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change constructor's arguments; they count from the next `fit` on."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise UsageError(f"there is no parameter {name!r}", remedy=f"Known are: {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        plain = inspect.signature(type(self)).parameters
        said = [f"{n}={v!r}" for n, v in self.get_params().items() if v != plain[n].default]
        return f"AnomalyDetector({', '.join(said)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def _experiment(self, path: Path, table: pa.Table) -> Experiment:
        times = table["time"].to_numpy()
        step = round(self.window * MICROSECONDS)
        windows = int(times.max()) // step - int(times.min()) // step + 1
        given: dict[str, Any] = {name: dict(part) for name, part in (self.settings or {}).items()}
        data = {"events": path / "events", "window": self.window, "train": windows * self.window}
        own = {
            "data": data | ({} if self.silos is None else {"silos": path / "silos.csv"}),
            "detector": {"name": self.detector},
            "federation": {"rounds": self.rounds},
        }
        merged = {name: own.get(name, {}) | given.get(name, {}) for name in {**own, **given}}
        return parse_experiment({**merged, "seed": self.seed}, "settings")

    def _scored(self, X: Any) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if not self.__sklearn_is_fitted__():
            raise UsageError("this detector is not fitted", remedy="Call `fit` first.")
        table = event_table(X, time_unit=self.time_unit)
        if not table.num_rows:
            return np.zeros(0, dtype=np.float32), np.zeros(0, dtype=bool)
        folder = self.run_.folder
        until = max(folder.states.read(name).until for name in self.run_.card.thresholds)
        times = table["time"].to_numpy()
        parts = list(training_edges(folder)) if times.min() < until else []
        if times.max() >= until:
            with TemporaryDirectory(prefix=SCRATCH) as scratch:
                write_events(table, Path(scratch) / "events")
                parts += later_edges(folder, Path(scratch) / "events")
        return of_events(parts, table)
