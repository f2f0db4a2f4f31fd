"""What a log says of hosts and edges reaches the detectors: roles, bytes, users, users as nodes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from entente.config import Experiment, parse_experiment
from entente.errors import ConfigError, GraphError
from entente.graphs.identity import ROLES, Unlisted, WithRoles
from entente.graphs.merging import USER
from entente.graphs.snapshots import read_timeline
from entente.graphs.temporal import NOBODY
from entente.logs.events import write_events
from entente.logs.schema import EVENT_SCHEMA
from entente.partition.base import Assignment, write_silos
from entente.partition.ownership import UNASSIGNED, Ownership
from entente.runs.folder import RunFolder
from entente.runtime.assembly import load_dataset, make_detector
from entente.runtime.local import train
from entente_lab.simulator import SimulationConfig, simulate

HOUR = 3600 * 10**6
TINY: dict[str, dict[str, Any]] = {
    "euler": {"name": "euler", "hidden": 4, "embedding": 4},
    "jbeil": {"name": "lab-jbeil", "memory": 4, "time": 4, "embedding": 4, "layers": 1, "neighbours": 2},
}


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("company")
    simulation = simulate(SimulationConfig(sites=2, hosts=40, days=2.0, seed=1))
    write_events(simulation.events, folder / "events")
    table = simulation.hosts.to_pylist()
    write_silos(folder / "silos.csv", Assignment.from_mapping({row["host"]: row["site"] for row in table}))
    with (folder / "hosts.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["host", "role"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(table)
    return folder


def experiment(company: Path, detector: str, **graph: Any) -> Experiment:
    data = {"events": str(company / "events"), "silos": str(company / "silos.csv")}
    return parse_experiment(
        {
            "detector": TINY[detector],
            "federation": {"rounds": 1, "epochs": 1},
            "data": {**data, "train": 86400.0, "window": 14400.0},
            "graph": graph,
        }
    )


def events(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    empty = dict.fromkeys(EVENT_SCHEMA.names)
    write_events(pa.Table.from_pylist([empty | row for row in rows], EVENT_SCHEMA), tmp_path / "events")
    return tmp_path / "events"


@pytest.mark.parametrize("detector", list(TINY))
def test_roles_weights_and_users_go_through_a_whole_run(company: Path, tmp_path: Path, detector: str) -> None:
    wanted = experiment(company, detector, nodes="both", weight="users", roles=str(company / "hosts.csv"))
    run = train(wanted, RunFolder(tmp_path / "run"), baselines=())
    scored = run.evaluation.overall()
    assert np.isfinite(scored.score).all()
    assert any(host.startswith(USER) for host in scored.hosts[np.unique(scored.src)].tolist())
    assert not any(host.startswith(USER) for host in scored.hosts[np.unique(scored.dst)].tolist())
    assert run.card.collisions  # of hosts, not of roles


@pytest.mark.parametrize("detector", list(TINY))
def test_what_an_option_adds_is_learnt_from(company: Path, detector: str) -> None:
    """Each option moves scores of the same model before any training, or its own weights in training."""
    plain = load_dataset(experiment(company, detector))
    silo = next(iter(plain.silos))
    sizes = {}
    for name, graph in {
        "plain": {},
        "weight": {"weight": "users"},
        "roles": {"roles": str(company / "hosts.csv")},
    }.items():
        wanted = experiment(company, detector, **graph)
        found = load_dataset(wanted)
        model = make_detector(wanted, found.shape)
        before = model.weights()
        model.train(found.silos[silo].train, 1, np.random.default_rng(0))
        after = model.weights()
        sizes[name] = sum(array.size for array in after.values())
        if name == "roles":
            table = "roles.weight" if detector == "jbeil" else model.identity_tables[0]
            assert (before[table][-ROLES:] != after[table][-ROLES:]).any()
        if name == "weight":
            train = found.silos[silo].train
            assert train.strength is not None
            assert (train.weight == plain.silos[silo].train.weight).all()  # counts stay counts
    assert sizes["roles"] > sizes["plain"]
    assert (sizes["weight"] > sizes["plain"]) == (detector == "jbeil")  # Euler's weights are those of edges


def test_hosts_of_a_role_share_a_row_and_a_new_host_still_has_its_roles() -> None:
    identity = WithRoles(Unlisted(10), {"a": "server", "b": "server", "c": "printer"})
    rows = identity.rows(["a", "b", "c", "nobody", f"{USER}ann"])
    assert (identity.table_size, identity.rows_per_host) == (10 + ROLES, 2)
    assert (rows[:, 0] == NOBODY).all()
    assert rows[0, 1] == rows[1, 1] != rows[2, 1]
    assert rows[3, 1] == NOBODY
    assert 10 <= rows[4, 1] < 10 + ROLES


def test_users_as_nodes_are_the_sources_of_what_happened_under_their_names(tmp_path: Path) -> None:
    log = events(
        tmp_path,
        [
            {"time": 0, "src": "a", "dst": "b", "user": "ann", "bytes": 2048},
            {"time": 1, "src": "a", "dst": "b", "user": "bob", "bytes": 1024},
            {"time": 2, "src": "b", "dst": "b", "user": "bob"},
            {"time": 3, "src": "c", "dst": "a"},
        ],
    )

    def edges(nodes: str) -> set[tuple[str, str]]:
        found = read_timeline(log, 3600.0, nodes=nodes)
        return set(zip(found.hosts[found.src].tolist(), found.hosts[found.dst].tolist(), strict=True))

    hosts = {("a", "b"), ("c", "a")}
    users = {("user:ann", "b"), ("user:bob", "b")}
    assert (edges("hosts"), edges("users"), edges("both")) == (hosts, users, hosts | users)
    context = read_timeline(log, 3600.0, context=True).context
    assert context is not None
    assert context.strengths("users").tolist() == [2.0, 1.0]
    assert context.strengths("bytes").tolist() == [3.0, 1 / 1024]


def test_a_user_belongs_to_no_silo_whatever_is_done_with_unknown_hosts() -> None:
    assert Ownership({"a": "x"}, "x").owners(["a", "b", "user:ann"]).tolist() == ["x", "x", UNASSIGNED]
    assert Ownership.whole("all").owners(["a", "user:ann"]).tolist() == ["all", "all"]


def test_a_log_without_what_edges_shall_weigh_and_a_list_without_roles_are_refused(tmp_path: Path) -> None:
    log = events(tmp_path, [{"time": t * HOUR, "src": "a", "dst": "b"} for t in range(4)])
    data = {"events": str(log), "train": 7200.0, "window": 3600.0}
    with pytest.raises(GraphError, match="no event of the log has bytes"):
        load_dataset(parse_experiment({"data": data, "graph": {"weight": "bytes"}}))
    (tmp_path / "list.csv").write_text("host,site\na,x\n")
    with pytest.raises(ConfigError, match="no columns host and role"):
        load_dataset(parse_experiment({"data": data, "graph": {"roles": str(tmp_path / "list.csv")}}))
