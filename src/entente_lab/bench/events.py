"""Events of a benchmark with what an experiment has to know about them, and their split into silos."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from entente.config import Experiment, parse_experiment
from entente.logs.schema import MICROSECONDS

LINK_TRAIN = 0.85
QUANTILES = 1000
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Events:
    """An event directory with what an experiment has to know about it."""

    name: str
    path: Path
    hash: str
    window: float
    train: float
    lr: float
    description: str
    quantiles: tuple[float, ...] = ()
    """Second by which 0, 1, ... 1000 per mille of the events before `link_end` have happened."""
    view: str = "auto"
    """How the block model looks at the events."""
    rounds: int = 30
    """Rounds of our own settings; fewer where a round is long."""
    sites: Path | None = None
    """Host list with a column `site`, where the company has sites."""
    start: float | None = None
    """Second at which the first window begins, where it is not a multiple of the window."""
    internal: tuple[str, ...] = ()
    """The company's own prefixes."""
    link_end: float | None = None
    """Second at which the events for link prediction end."""

    def moment(self, share: float) -> int:
        """Microsecond by which this share of the events for link prediction has happened."""
        return round(self.quantiles[round(QUANTILES * share)] * MICROSECONDS)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Events split into silos."""

    events: Events
    k: int
    silos: Path
    sizes: Mapping[str, int]
    split: str
    picture: Mapping[str, Any] = field(default_factory=dict)
    """The silos' block matrix, for a drawing."""

    @property
    def hash(self) -> str:
        return hashlib.sha256(f"{self.events.hash} {file_digest(self.silos)}".encode()).hexdigest()[:16]

    def experiment(self, **sections: Any) -> Experiment:
        """An experiment on these data; `sections` replace or add whole sections of the file."""
        data = {
            "events": self.events.path,
            "silos": self.silos,
            "window": self.events.window,
            "train": self.events.train,
            "start": self.events.start,
        }
        table = {"name": f"{self.events.name}-{self.k}", "data": data, **sections}
        return parse_experiment(table)

    def link_data(self, share: float = 1.0) -> dict[str, float]:
        """Settings that train on 85 % of the first `share` of the events and test on the rest of it.

        The cut is made by event; events of the same microsecond stay together. Windows are laid so that
        one of them ends right behind the last training event.
        """
        events = self.events
        width = round(events.window * MICROSECONDS)
        cut = events.moment(share * LINK_TRAIN) + 1
        windows = -(-(cut - events.moment(0.0)) // width)
        found = {
            "data.start": (cut - windows * width) / MICROSECONDS,
            "data.train": windows * events.window,
            "data.validation": 0.0,
        }
        if share < 1.0 or events.link_end is not None:
            found["data.end"] = (events.moment(share) + 1) / MICROSECONDS
        return found

    def facts(self) -> dict[str, Any]:
        return {
            "dataset": self.events.name,
            "description": self.events.description,
            "k": self.k,
            "silos": dict(self.sizes),
            "split": self.split,
            "picture": dict(self.picture),
            "hash": self.hash,
        }


def digest(events: Path) -> str:
    """Hash of an event directory's rows: equal rows are stored as equal bytes."""
    whole = hashlib.sha256()
    for file in sorted(events.glob("day=*/*.parquet")):
        whole.update(f"{file.parent.name}/{file.name} {file_digest(file)}\n".encode())
    return whole.hexdigest()[:16]


def quantiles(events: Path, end: float | None = None) -> tuple[float, ...]:
    """Second by which each per mille of the events before `end` has happened."""
    import numpy as np

    from entente.logs.events import load_events

    until = None if end is None else round(end * MICROSECONDS)
    times = np.sort(load_events(events, ["time"], None, until)["time"].to_numpy())
    places = np.linspace(0, len(times) - 1, QUANTILES + 1).astype(np.int64)
    return tuple((times[places] / MICROSECONDS).tolist())


def file_digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()
