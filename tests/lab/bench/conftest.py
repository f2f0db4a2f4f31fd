from __future__ import annotations

from pathlib import Path

import pytest

from entente.logs.events import write_events
from entente.partition.base import write_silos
from entente_lab.bench.events import Events, Prepared, digest, quantiles
from entente_lab.bench.partition import partition
from entente_lab.simulator import SimulationConfig, simulate, write


@pytest.fixture(scope="session")
def small_company(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Two sites, two silos, three days."""
    folder = tmp_path_factory.mktemp("company")
    config = SimulationConfig(sites=2, hosts=60, days=3)
    simulation = simulate(config)
    write(simulation, folder, "lanl")
    write_events(simulation.events, folder / "events")
    events = Events(
        name="simulated",
        path=folder / "events",
        hash=digest(folder / "events"),
        window=7200.0,
        train=config.attack_start // 7200 * 7200,
        lr=0.01,
        description="a small company",
        quantiles=quantiles(folder / "events"),
        sites=folder / "hosts.csv",
    )
    assignment, how = partition(events.path, 2, sites=events.sites, view="auth")
    write_silos(folder / "silos-2.csv", assignment)
    return Prepared(events, 2, folder / "silos-2.csv", assignment.sizes(), how)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "bench"
