"""Data sets of the benchmarks: events and silos, prepared once under OUT/data and known by their hash.

`simulated` and its sisters are made up here. `lanl-replay`, `lanl`, `optc` and `pivoting` are
read from a folder that the user names; nothing is downloaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path

from entente.artifacts import read_json, write_json
from entente.errors import EntenteError, UsageError
from entente.partition.base import read_silos, write_silos
from entente_lab.bench.events import Events, Prepared, digest, quantiles
from entente_lab.bench.partition import block_picture, partition
from entente_lab.bench.presets import PRESETS, VERSION


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
            assignment, how = partition(
                events.path, k, sites=events.sites, view=events.view, internal=events.internal
            )
            write_silos(silos, assignment)
            write_json(notes, {"split": how})
        assignment, said = read_silos(silos), read_json(notes)
        if "picture" not in said:
            said["picture"] = block_picture(events.path, assignment)
            write_json(notes, said)
        return Prepared(events, k, silos, assignment.sizes(), str(said["split"]), said["picture"])

    def events(self, name: str) -> Events:
        base, seed = split_seed(name)
        if base not in MAKERS:
            raise UsageError(f"unknown data set {base!r}", remedy=f"Choose from {', '.join(MAKERS)}.")
        folder = self.folder / name
        stored = folder / "dataset.json"
        facts = read_json(stored) if stored.exists() and _readable(folder / "events") else {}
        made_by = simulator_digest() if base in MADE_UP else f"preset {VERSION}"
        known_fields = {field.name for field in fields(Events)}
        if facts and facts.pop("made_by", "") == made_by and facts.keys() == known_fields:
            sites = folder / "hosts.csv" if facts["sites"] else None
            lists = {name: tuple(facts[name]) for name in ("quantiles", "internal")}
            return Events(**{**facts, "path": folder / "events", "sites": sites, **lists})
        source = self.sources.get(base)
        if source is None and base not in MADE_UP:
            raise UsageError(
                f"data set {base!r} needs its files", remedy=f"Say where they are: --data {base}=FOLDER."
            )
        if source is not None and seed is not None:
            source = source / str(seed)
            if not source.is_dir():
                raise UsageError(
                    "is no folder",
                    where=source,
                    remedy=f"--data {base}=FOLDER needs a folder of files for every seed, named by it.",
                )
        folder.mkdir(parents=True, exist_ok=True)
        events = MAKERS[base](name, folder, source or folder)
        events = replace(events, hash=digest(events.path), quantiles=quantiles(events.path, events.link_end))
        for outdated in folder.glob("silos-*"):
            outdated.unlink()
        plain = {"path": None, "sites": events.sites is not None, "made_by": made_by}
        write_json(stored, asdict(events) | plain)
        return events


def of_seed(name: str, seed: int) -> str:
    """The data set `name` made with a seed: a company, or a replay in a folder named by the seed."""
    return f"{name}@{seed}"


def split_seed(name: str) -> tuple[str, int | None]:
    """What `of_seed` put together; None for a data set that there is only one of."""
    base, _, seed = name.partition("@")
    return base, int(seed) if seed else None


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


# ---- made up here --------------------------------------------------------------------------


def _company(
    sites: int, hosts: int, days: float, window: float = 1800.0, rounds: int = 30
) -> Callable[[str, Path, Path], Events]:
    def make(name: str, folder: Path, source: Path) -> Events:
        from entente.logs.events import write_events
        from entente_lab.simulator import SimulationConfig, simulate, write

        del source
        config = SimulationConfig(sites=sites, hosts=hosts, days=days, seed=split_seed(name)[1] or 0)
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
            rounds=rounds,
            sites=folder / "hosts.csv",
        )

    return make


MAKERS: Mapping[str, Callable[[str, Path, Path], Events]] = {
    "simulated": _company(4, 800, 8.0),
    "simulated-scale": _company(50, 2000, 8.0),
    "simulated-lab": _company(4, 200, 5.0),
    "simulated-branches": _company(10, 200, 3.0, window=3600.0, rounds=15),
    "simulated-many": _company(50, 1000, 2.0, window=3600.0),
    **PRESETS,
}
REAL = ("lanl-replay", "lanl", "optc")
"""Data sets with attacks that a user brings."""
MADE_UP = ("simulated", "simulated-scale", "simulated-lab", "simulated-branches", "simulated-many")
SMALL = "simulated-branches"
"""The company of the recorded tables: a cell takes seconds."""

ROUNDS, REAL_ROUNDS = 15, 10
"""How long grids of hundreds of cells train: half of the default, a third where a round is long."""


def rounds(dataset: str) -> int:
    """The rounds of one cell in a grid of hundreds of cells."""
    return REAL_ROUNDS if dataset in REAL else ROUNDS
