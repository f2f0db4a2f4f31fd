"""Data to begin with: the simulated company, and LANL, OpTC and Pivoting where the user has their files.

Nothing is downloaded. The simulated company is made up here and says so; the public sets are read from a
folder with their original files and cut as the paper cuts them.

>>> company = entente.datasets.simulated("company", hosts=40, sites=2, days=2)
>>> company.description
'simulated company, 2 sites, 40 hosts, 2 days, seed 0'
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LogData", "lanl", "names", "optc", "pivoting", "simulated"]


@dataclass(frozen=True, slots=True)
class LogData:
    """Events on disk, with what an experiment has to know about them.

    >>> company = entente.datasets.simulated("company", hosts=40, sites=2, days=2)
    >>> company.experiment(rounds=2).data.window
    1800.0
    >>> company.table().num_rows > 1000
    True
    """

    name: str
    description: str
    events: Path
    """Event directory."""
    silos: Path
    """Table host,silo."""
    window: float
    """Seconds of one snapshot."""
    train: float
    """Seconds from the start that hold no attack."""
    hosts: Path | None = None
    """Host list, where there is one."""
    start: float | None = None
    """Second at which the first window begins, where it is not a multiple of the window."""

    def experiment(self, *, detector: str = "behaviour", rounds: int = 15, seed: int = 0) -> Any:
        """An `entente.Experiment` over these events and silos."""
        from entente.config import parse_experiment

        data = {"events": self.events, "silos": self.silos, "window": self.window, "train": self.train}
        return parse_experiment(
            {
                "name": self.name,
                "seed": seed,
                "data": data | ({} if self.start is None else {"start": self.start}),
                "detector": {"name": detector},
                "federation": {"rounds": rounds},
            }
        )

    def table(self) -> Any:
        """The events as an Arrow table; `.to_pandas()` or `polars.from_arrow` make a frame of it."""
        from entente.logs.events import load_events

        return load_events(self.events)


def simulated(
    folder: str | os.PathLike[str],
    *,
    hosts: int = 800,
    sites: int = 4,
    days: float = 8.0,
    seed: int = 0,
    preset: str = "classic",
) -> LogData:
    """A simulated company with a red team, one silo per site, written into `folder`.

    >>> entente.datasets.simulated("company", hosts=40, sites=2, days=2).train
    102600.0
    """
    from entente.logs.events import write_events
    from entente.partition.base import Assignment, write_silos
    from entente_lab.simulator import SimulationConfig, simulate, write

    root, window = Path(folder), 1800.0
    config = SimulationConfig(sites, hosts, days, seed, preset=preset)
    simulation = simulate(config)
    write(simulation, root, "csv")
    write_events(simulation.events, root / "events")
    sites_of = dict(
        zip(simulation.hosts["host"].to_pylist(), simulation.hosts["site"].to_pylist(), strict=True)
    )
    write_silos(root / "silos.csv", Assignment.from_mapping(sites_of))
    return LogData(
        name="simulated",
        description=f"simulated company, {sites} sites, {hosts} hosts, {days:g} days, seed {seed}",
        events=(root / "events").resolve(),
        silos=(root / "silos.csv").resolve(),
        window=window,
        train=config.attack_start // window * window,
        hosts=(root / "hosts.csv").resolve(),
    )


def lanl(source: str | os.PathLike[str], folder: str | os.PathLike[str], *, k: int = 4) -> LogData:
    """LANL cyber1 from a folder with auth.txt(.gz) and redteam.txt(.gz): NTLM logons, K silos by the block
    model.

    >>> data = entente.datasets.lanl("lanl", "prepared", k=2)
    >>> data.window, data.train
    (1800.0, 149400.0)
    """
    return _public("lanl", source, folder, k)


def optc(source: str | os.PathLike[str], folder: str | os.PathLike[str], *, k: int = 4) -> LogData:
    """OpTC from a folder with eCAR files (`*.json`, `*.json.gz`) and a table of the red team's event ids.

    >>> data = entente.datasets.optc("optc", "prepared", k=2)
    >>> sorted(set(data.table()["label"].to_pylist()))
    [0, 1]
    """
    return _public("optc", source, folder, k)


def pivoting(source: str | os.PathLike[str], folder: str | os.PathLike[str], *, k: int = 4) -> LogData:
    """The first million flows of Pivoting from a folder with its table.

    >>> data = entente.datasets.pivoting("pivoting", "prepared", k=2)
    >>> data.experiment(detector="jbeil").data.window
    360.0
    """
    return _public("pivoting", source, folder, k)


def names() -> tuple[str, ...]:
    """The data sets that there are functions for.

    >>> entente.datasets.names()
    ('simulated', 'lanl', 'optc', 'pivoting')
    """
    return ("simulated", "lanl", "optc", "pivoting")


def _public(name: str, source: str | os.PathLike[str], folder: str | os.PathLike[str], k: int) -> LogData:
    from entente_lab.bench.datasets import Library

    found = Library(Path(folder).resolve(), {name: Path(source)}).prepare(name, k)
    events = found.events
    return LogData(
        name, events.description, events.path, found.silos, events.window, events.train, start=events.start
    )
