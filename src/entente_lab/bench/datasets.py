"""Data sets of the benchmarks: events and silos, prepared once under OUT/data and known by their hash.

`simulated` and its sisters are made up here. `lanl-replay`, `lanl`, `optc` and `pivoting` are
read from a folder that the user names; nothing is downloaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from entente.artifacts import read_json, write_json
from entente.config import Experiment, parse_experiment
from entente.errors import EntenteError, UsageError
from entente.logs.schema import MICROSECONDS
from entente.partition.base import read_silos, write_silos
from entente_lab.bench.partition import partition

HOUR = 3600.0
LINK_TRAIN = 0.85
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
    percentiles: tuple[float, ...] = ()
    """Second by which 0, 1, ... 100 % of the events have happened."""
    view: str = "auto"
    """How the block model looks at the events."""
    rounds: int = 30
    """Rounds of our own settings; fewer where a round is long."""
    sites: Path | None = None
    """Host list with a column `site`, where the company has sites."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Events split into silos."""

    events: Events
    k: int
    silos: Path
    sizes: Mapping[str, int]
    split: str

    @property
    def hash(self) -> str:
        return hashlib.sha256(f"{self.events.hash} {_file_digest(self.silos)}".encode()).hexdigest()[:16]

    def experiment(self, **sections: Any) -> Experiment:
        """An experiment on these data; `sections` replace or add whole sections of the file."""
        data = {
            "events": self.events.path,
            "silos": self.silos,
            "window": self.events.window,
            "train": self.events.train,
        }
        table = {"name": f"{self.events.name}-{self.k}", "data": data, **sections}
        return parse_experiment(table)

    def link_data(self, share: float = 1.0) -> dict[str, float]:
        """Settings that train on 85 % of the first `share` of the events and test on the rest of it."""
        events = self.events
        first = events.percentiles[0] // events.window * events.window
        end = events.percentiles[round(100 * share)]
        cut = events.percentiles[round(100 * share * LINK_TRAIN)]
        train = max(1, round((cut - first) / events.window)) * events.window
        found = {"data.train": train, "data.validation": 0.0}
        return found | ({"data.end": end} if share < 1.0 else {})

    def facts(self) -> dict[str, Any]:
        return {
            "dataset": self.events.name,
            "description": self.events.description,
            "k": self.k,
            "silos": dict(self.sizes),
            "split": self.split,
            "hash": self.hash,
        }


class Library:
    """Prepares data sets under `folder`; `sources` says where the user keeps those that are not made up."""

    def __init__(self, folder: Path, sources: Mapping[str, Path] | None = None) -> None:
        self.folder = folder
        self.sources = dict(sources or {})

    def prepare(self, name: str, k: int) -> Prepared:
        """Events and K silos; everything is reused when it is there already."""
        events = self.events(name)
        silos = events.path.parent / f"silos-{k}.csv"
        notes = silos.with_suffix(".json")
        if not notes.exists():
            assignment, how = partition(events.path, k, sites=events.sites, view=events.view)
            write_silos(silos, assignment)
            write_json(notes, {"split": how})
        sizes = read_silos(silos).sizes()
        return Prepared(events, k, silos, sizes, str(read_json(notes)["split"]))

    def events(self, name: str) -> Events:
        if name not in MAKERS:
            raise UsageError(f"unknown data set {name!r}", remedy=f"Choose from {', '.join(MAKERS)}.")
        folder = self.folder / name
        stored = folder / "dataset.json"
        facts = read_json(stored) if stored.exists() and _readable(folder / "events") else {}
        made_by = simulator_digest() if name in MADE_UP else None
        known_fields = {field.name for field in fields(Events)}
        if facts and facts.pop("made_by", "") == made_by and facts.keys() == known_fields:
            sites = folder / "hosts.csv" if facts["sites"] else None
            known = {"path": folder / "events", "sites": sites, "percentiles": tuple(facts["percentiles"])}
            return Events(**{**facts, **known})
        source = self.sources.get(name)
        if source is None and name not in MADE_UP:
            raise UsageError(
                f"data set {name!r} needs its files", remedy=f"Say where they are: --data {name}=FOLDER."
            )
        folder.mkdir(parents=True, exist_ok=True)
        events = MAKERS[name](name, folder, source or folder)
        events = replace(events, hash=digest(events.path), percentiles=percentiles(events.path))
        for outdated in folder.glob("silos-*"):
            outdated.unlink()
        plain = {"path": None, "sites": events.sites is not None, "made_by": made_by}
        write_json(stored, asdict(events) | plain)
        return events


def _readable(events: Path) -> bool:
    """Whether this version reads what an earlier one may have prepared."""
    from entente.logs.events import read_manifest

    try:
        read_manifest(events)
    except EntenteError:
        return False
    return True


def simulator_digest() -> str:
    """Another simulator makes another company, under the same name."""
    import entente_lab.simulator as simulator

    whole = hashlib.sha256()
    for file in sorted(Path(simulator.__file__).parent.rglob("*.py")):
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


def digest(events: Path) -> str:
    """Hash of an event directory's rows: equal rows are stored as equal bytes."""
    whole = hashlib.sha256()
    for file in sorted(events.glob("day=*/*.parquet")):
        whole.update(f"{file.parent.name}/{file.name} {_file_digest(file)}\n".encode())
    return whole.hexdigest()[:16]


def percentiles(events: Path) -> tuple[float, ...]:
    """Second by which each percent of the events has happened."""
    import numpy as np

    from entente.logs.events import load_events

    times = np.sort(load_events(events, ["time"])["time"].to_numpy())
    places = np.linspace(0, len(times) - 1, 101).astype(np.int64)
    return tuple((times[places] / MICROSECONDS).tolist())


def _file_digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


# ---- made up here --------------------------------------------------------------------------


def _company(
    sites: int, hosts: int, days: float, window: float = 1800.0
) -> Callable[[str, Path, Path], Events]:
    def make(name: str, folder: Path, source: Path) -> Events:
        from entente.logs.events import write_events
        from entente_lab.simulator import SimulationConfig, simulate, write

        del source
        config = SimulationConfig(sites=sites, hosts=hosts, days=days)
        simulation = simulate(config)
        write(simulation, folder, "lanl")
        write_events(simulation.events, folder / "events")
        return Events(
            name=name,
            path=folder / "events",
            hash="",
            window=window,
            train=config.attack_start // window * window,
            lr=0.01,
            description=f"simulated company, {sites} sites, {hosts} hosts, {days:g} days, seed {config.seed}",
            sites=folder / "hosts.csv",
        )

    return make


# ---- read from the user's folders ----------------------------------------------------------


def _lanl(name: str, folder: Path, source: Path) -> Events:
    logs = _first(source, "auth.txt.gz", "auth.txt")
    labels = _first(source, "redteam.txt", "redteam.txt.gz")
    _ingest([logs], folder, "lanl-auth", labels, ntlm=True)
    what = "LANL replay" if name == "lanl-replay" else "LANL cyber1"
    description = f"{what}, NTLM, 30-minute windows, first 42 hours for training"
    return Events(name, folder / "events", "", 1800.0, 42 * HOUR, 0.01, description, view="auth", rounds=15)


def _optc(name: str, folder: Path, source: Path) -> Events:
    labels = _first(source, "redteam.csv", "redteam.txt", "labels.csv")
    _ingest([source], folder, "optc-ecar", labels)
    description = "OpTC, FLOW/START, 6-minute windows, first 5 days for training"
    return Events(name, folder / "events", "", 360.0, 120 * HOUR, 0.005, description, view="flows")


def _pivoting(name: str, folder: Path, source: Path) -> Events:
    """The first million events, as the paper takes them."""
    from entente.logs.events import load_events, write_events

    _ingest([source], folder, "pivoting", None)
    events = load_events(folder / "events").sort_by("time")[:1_000_000]
    write_events(events, folder / "events")
    description = "Pivoting, first 1,000,000 events, 70/15/15 by time"
    return Events(name, folder / "events", "", 360.0, HOUR, 0.003, description, view="ports")


def _ingest(
    sources: list[Path], folder: Path, format: str, labels: Path | None, *, ntlm: bool = False
) -> None:
    from entente.logs.formats.base import Options
    from entente.logs.ingest import Request, ingest

    names = [str(source) for source in sources]
    ingest(Request(names, folder / "events", format, Options(ntlm=ntlm), labels=labels))


def _first(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise UsageError(f"holds none of {', '.join(names)}", where=folder)


MAKERS: Mapping[str, Callable[[str, Path, Path], Events]] = {
    "simulated": _company(4, 800, 8.0),
    "simulated-scale": _company(50, 2000, 8.0),
    "simulated-lab": _company(4, 200, 5.0),
    "simulated-branches": _company(10, 200, 3.0, window=3600.0),
    "lanl-replay": _lanl,
    "lanl": _lanl,
    "optc": _optc,
    "pivoting": _pivoting,
}
REAL = ("lanl-replay", "lanl", "optc")
"""Data sets with attacks that a user brings."""
MADE_UP = ("simulated", "simulated-scale", "simulated-lab", "simulated-branches")

ROUNDS, REAL_ROUNDS = 15, 10
"""How long grids of hundreds of cells train: half of the default, a third where a round is long."""


def rounds(dataset: str) -> int:
    """The rounds of one cell in a grid of hundreds of cells."""
    return REAL_ROUNDS if dataset in REAL else ROUNDS
