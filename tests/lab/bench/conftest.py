from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from entente.logs.events import write_events
from entente.partition.base import write_silos
from entente_lab.bench.cells import Record, Row
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


LABELS = ("dataset", "detector", "k", "method", "rule", "silos", "form", "part", "noise", "group", "variant")


def recorded(path: Path) -> list[Row]:
    """Labels and figures of a table in docs/records, as rows; the rest of a cell is not kept there."""
    rows: list[Row] = []
    for line in pq.read_table(path).to_pylist():
        labels = {name: line[name] for name in (*LABELS, "seed") if name in line}
        values = {name: value for name, value in line.items() if isinstance(value, int | float)}
        record = Record(
            *(line["key"], line["status"], {}, line["seed"], line["data_hash"], {}, "", ""),
            versions={"code": line["code"]},
            outcome={"values": values},
            seconds=line["seconds"],
            peak_memory_mb=line["peak_memory_mb"],
            finished="",
        )
        rows.append((labels, record))
    return rows
