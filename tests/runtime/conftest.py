"""A tiny company with three sites, as events and silos on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from entente.config import Data, Experiment, Federation
from entente.detectors.euler.options import EulerOptions
from entente.logs.events import write_events
from entente.partition.base import Assignment, write_silos
from entente_lab.simulator import SimulationConfig, simulate


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with events/ and silos.csv."""
    folder = tmp_path_factory.mktemp("tiny")
    simulation = simulate(SimulationConfig(sites=3, hosts=60, days=4.0, seed=1))
    write_events(simulation.events, folder / "events")
    hosts, sites = simulation.hosts["host"].to_pylist(), simulation.hosts["site"].to_pylist()
    write_silos(folder / "silos.csv", Assignment.from_mapping(dict(zip(hosts, sites, strict=True))))
    return folder


@pytest.fixture(scope="session")
def experiment(tiny: Path) -> Experiment:
    return Experiment(
        data=Data(
            events=tiny / "events", silos=tiny / "silos.csv", train=2.4 * 86400, window=7200.0, validation=0.2
        ),
        detector=EulerOptions(hidden=8, embedding=4),
        federation=Federation(rounds=4),
    )
