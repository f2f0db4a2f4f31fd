"""The simulated company keeps its promises."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from sklearn.metrics import average_precision_score

from entente.errors import UsageError
from entente.logs.ingest import Request, ingest
from entente.logs.schema import EVENT_SCHEMA
from entente_lab.simulator import FORMATS, Simulation, SimulationConfig, simulate, write
from entente_lab.simulator.company import site_sizes
from entente_lab.simulator.redteams import TECHNIQUES

WINDOW = 1_800_000_000
SMALL = SimulationConfig(sites=3, hosts=120, days=4)


@pytest.fixture(scope="module")
def small() -> Simulation:
    return simulate(SMALL)


def test_event_table_has_the_schema_and_is_sorted(small: Simulation) -> None:
    assert small.events.schema == EVENT_SCHEMA
    time = small.events["time"].to_numpy()
    assert (np.diff(time) >= 0).all()
    assert time[0] >= 0
    assert time[-1] < SMALL.end * 1_000_000
    known = set(small.hosts["host"].to_pylist())
    assert set(small.events["src"].unique().to_pylist()) <= known
    assert set(small.events["dst"].unique().to_pylist()) <= known
    assert not pc.any(pc.equal(small.events["src"], small.events["dst"])).as_py()


@pytest.mark.parametrize("format", FORMATS)
def test_same_seed_gives_the_same_bytes(format: str, tmp_path: Path) -> None:
    first = write(simulate(SMALL), tmp_path / "a", format)
    second = write(simulate(SMALL), tmp_path / "b", format)
    assert [path.name for path in first] == [path.name for path in second]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SMALL, "b00d61835d7e4949f0907cc271d07a759e1604650c0fe0ea103760fb5ded9ec3"),
        (SimulationConfig(), "c6b57affb8aa72e34daaf5fdb3d6acebba47343ff900e85b53de2d151da1ddce"),
        (
            SimulationConfig(sites=1, hosts=100, days=3, seed=5),
            "2bc1133e7a438fa432b6a18d6315a045d1805d25c7ceb5d0cec7a680b4a2b272",
        ),
    ],
)
def test_the_classic_company_is_what_it_always_was(config: SimulationConfig, expected: str) -> None:
    simulation = simulate(config)
    digest = hashlib.sha256()
    for table, columns in (
        (simulation.events, "time src dst user kind port bytes label"),
        (simulation.attack, "time src dst user technique protocol step"),
        (simulation.hosts, "host site role first_day address"),
    ):
        for name in columns.split():
            digest.update("\n".join(map(str, table[name].to_pylist())).encode())
    assert digest.hexdigest() == expected


def test_another_seed_gives_another_company(small: Simulation) -> None:
    other = simulate(SimulationConfig(sites=3, hosts=120, days=4, seed=1))
    assert not other.events.equals(small.events)


def test_benign_events_do_not_depend_on_the_red_team(small: Simulation) -> None:
    calm = simulate(SimulationConfig(sites=3, hosts=120, days=4, red_teams=()))
    benign = small.events.filter(pc.equal(small.events["label"], 0)).drop_columns("bytes")
    assert len(calm.attack) == 0
    assert calm.events.drop_columns("bytes").equals(benign)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_first_seen_rule_stays_under_0_3(seed: int) -> None:
    simulation = simulate(SimulationConfig(seed=seed))
    new, label = first_seen(simulation)
    ties = np.random.default_rng(seed).random(len(new)) * 1e-6
    assert 30 <= label.sum() <= 120
    assert 0.005 < average_precision_score(label, new + ties) < 0.3
    # Not all of the attack is new, and most of what is new is benign.
    assert new[label == 1].mean() < 1
    assert new[label == 0].sum() > 5 * label.sum()


def first_seen(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Plain and slow: per (window, src, dst) of the test days, was the pair never there before?"""
    edges: dict[tuple[int, str, str], int] = {}
    for row in simulation.events.select(["time", "src", "dst", "label"]).to_batches():
        columns = (row[name].to_pylist() for name in ("time", "src", "dst", "label"))
        for time, src, dst, label in zip(*columns, strict=True):
            key = (time // WINDOW, src, dst)
            edges[key] = max(edges.get(key, 0), label)
    seen: set[tuple[str, str]] = set()
    new, labels = [], []
    for (window, src, dst), label in edges.items():
        if window * WINDOW >= simulation.config.attack_start * 1_000_000:
            new.append((src, dst) not in seen)
            labels.append(label)
        seen.add((src, dst))
    return np.array(new, dtype=float), np.array(labels)


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_the_attack_table_and_nothing_precedes_the_quiet_days(seed: int) -> None:
    simulation = simulate(SimulationConfig(seed=seed, activity=0.2))
    keys = ["time", "src", "dst", "user"]
    labelled = simulation.events.filter(pc.equal(simulation.events["label"], 1)).select(keys)
    assert sorted(labelled.to_pylist(), key=str) == sorted(
        simulation.attack.select(keys).to_pylist(), key=str
    )
    assert pc.min(simulation.attack["time"]).as_py() >= 0.6 * 8 * 86_400 * 1_000_000
    assert set(simulation.attack["technique"].to_pylist()) <= set(TECHNIQUES)
    assert set(simulation.attack["protocol"].to_pylist()) <= {"smb", "wmi", "rdp", "winrm"}
    assert len(set(zip(*(simulation.attack[key].to_pylist() for key in keys), strict=True))) == len(
        simulation.attack
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_red_team_enters_one_site_and_crosses_into_all_others(seed: int) -> None:
    simulation = simulate(SimulationConfig(seed=seed, activity=0.2))
    site = dict(zip(simulation.hosts["host"].to_pylist(), simulation.hosts["site"].to_pylist(), strict=True))
    attack = simulation.attack.to_pylist()
    assert site[attack[0]["src"]] != "headquarters"
    assert {site[row["dst"]] for row in attack} == set(site.values())
    assert any(site[row["src"]] != site[row["dst"]] for row in attack)
    days = {row["time"] // 86_400_000_000 for row in attack}
    assert len(days) >= 3


def test_sites_differ_in_size() -> None:
    sizes = site_sizes(4, 800)
    assert sizes.sum() == 800
    assert sizes[0] > 2 * sizes[1] > 2 * sizes[-1]
    assert (site_sizes(50, 2000) >= 10).all()
    assert site_sizes(50, 2000).sum() == 2000


def test_benign_life_has_working_hours_and_a_weekend(small: Simulation) -> None:
    hour = small.events["time"].to_numpy() // 3_600_000_000
    per_hour = np.bincount(hour, minlength=96)
    thursday, saturday = per_hour[:24].sum(), per_hour[48:72].sum()
    assert saturday < 0.6 * thursday


def test_lanl_files_have_lanls_own_columns(small: Simulation, tmp_path: Path) -> None:
    write(small, tmp_path, "lanl")
    with gzip.open(tmp_path / "auth.txt.gz", "rt") as lines:
        rows = [line.rstrip("\n").split(",") for line in lines]
    assert len(rows) == len(small.events)
    assert {len(row) for row in rows} == {9}
    seen = {(row[0], row[1], row[3], row[4]): row[5] for row in rows}
    red = [tuple(line.split(",")) for line in (tmp_path / "redteam.txt").read_text().splitlines()]
    assert len(red) == len(small.attack)
    assert {seen[row] for row in red} == {"NTLM"}  # type: ignore[index]
    assert sum(row[5] == "NTLM" for row in rows) > 0.7 * len(rows)


def test_zeek_lines_are_labelled_and_use_the_addresses_of_hosts_csv(
    small: Simulation, tmp_path: Path
) -> None:
    write(small, tmp_path, "zeek")
    lines = [json.loads(line) for line in (tmp_path / "conn.log").read_text().splitlines()]
    with (tmp_path / "hosts.csv").open() as file:
        hosts = {row["host"] for row in csv.DictReader(file)}
    with (tmp_path / "attack.csv").open() as file:
        attack = {(float(row["time"]), row["src"], row["dst"]) for row in csv.DictReader(file)}
    assert len(lines) == len(small.events)
    assert all(line["id.orig_h"] in hosts and line["id.resp_h"] in hosts for line in lines)
    malicious = {(x["ts"], x["id.orig_h"], x["id.resp_h"]) for x in lines if x["label"] == "Malicious"}
    assert malicious == attack
    assert len({line["uid"] for line in lines}) == len(lines)


def test_csv_reads_back_as_the_event_table(small: Simulation, tmp_path: Path) -> None:
    write(small, tmp_path, "csv")
    with (tmp_path / "events.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(small.events)
    last = small.events.slice(len(rows) - 1).to_pylist()[0]
    last["time"] //= 1_000_000
    assert rows[-1] == {**{key: str(value) for key, value in last.items()}, "outcome": "true"}


@pytest.mark.parametrize(
    ("format", "log", "labels"),
    [("lanl", "auth.txt.gz", "redteam.txt"), ("zeek", "conn.log", None), ("csv", "events.csv", None)],
)
def test_the_ordinary_ingest_reads_every_format(
    small: Simulation, tmp_path: Path, format: str, log: str, labels: str | None
) -> None:
    write(small, tmp_path / "company", format)
    named = None if labels is None else tmp_path / "company" / labels
    source = str(tmp_path / "company" / log)
    manifest = ingest(Request(sources=(source,), out=tmp_path / "events", labels=named))
    assert manifest.rows == len(small.events)
    assert manifest.malicious == len(small.attack)
    assert manifest.first_time == small.events["time"][0].as_py()
    assert manifest.last_time == small.events["time"][-1].as_py()


def test_a_million_events_and_thousands_of_hosts_are_one_call() -> None:
    simulation = simulate(SimulationConfig(sites=12, hosts=3500, days=8))
    assert len(simulation.events) > 1_000_000
    assert len(simulation.hosts) == 3500
    assert len(simulation.attack) >= 60


def test_one_site_alone_still_has_an_attack() -> None:
    simulation = simulate(SimulationConfig(sites=1, hosts=100, days=3))
    assert len(simulation.attack) > 5


@pytest.mark.parametrize(
    "wrong", [{"sites": 0}, {"hosts": 30}, {"days": 0}, {"quiet": 1.0}, {"activity": 0.0}, {"seed": -1}]
)
def test_impossible_companies_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        SimulationConfig(**wrong)  # type: ignore[arg-type]


def test_unknown_format_is_refused(small: Simulation, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lanl, zeek, csv"):
        write(small, tmp_path, "pcap")
