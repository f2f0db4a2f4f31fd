"""Events seen as bipartite graphs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from sklearn.metrics import adjusted_rand_score

from entente.errors import UsageError
from entente.logs.events import write_events
from entente.partition.views import VIEWS, build_view, fit_silos, is_internal
from entente_lab.simulator import SimulationConfig, simulate


def store(path: Path, rows: list[tuple[str | None, str, str, str | None, int | None]]) -> Path:
    names = ("user", "src", "dst", "kind", "port")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    types = {"user": pa.string(), "kind": pa.string(), "port": pa.int32()}
    table = {name: pa.array(values, types.get(name)) for name, values in columns.items()}
    write_events(pa.table({"time": pa.array(range(len(rows)), pa.int64()), **table}), path)
    return path


def links(view: object) -> set[tuple[str, str, str, float]]:
    graph = view.graph  # type: ignore[attr-defined]
    return {
        (graph.tops[t], graph.bottoms[b], graph.types[k], w)
        for t, b, k, w in zip(graph.top, graph.bottom, graph.type, graph.weight, strict=True)
    }


def test_auth_joins_users_with_the_hosts_they_log_on_to(tmp_path: Path) -> None:
    events = store(
        tmp_path / "e",
        [("u", "a", "b", "NTLM", None), ("u", "a", "b", "NTLM", None), ("v", "b", "b", "Kerberos", None)],
    )
    view = build_view(events)
    assert (view.name, view.hosts) == ("auth", "bottom")
    assert links(view) == {("u", "b", "NTLM", 2.0), ("v", "b", "Kerberos", 1.0)}


def test_flows_join_internal_with_external_hosts_by_service_and_direction(tmp_path: Path) -> None:
    events = store(
        tmp_path / "e",
        [
            (None, "10.0.0.1", "8.8.8.8", "udp", 53),
            (None, "9.9.9.9", "10.0.0.2", "tcp", 22),
            (None, "10.0.0.1", "10.0.0.2", "tcp", 445),
        ],
    )
    view = build_view(events)
    assert (view.name, view.hosts) == ("flows", "top")
    assert links(view) == {
        ("10.0.0.1", "8.8.8.8", "udp-53-out", 1.0),
        ("10.0.0.2", "9.9.9.9", "tcp-22-in", 1.0),
    }


def test_ports_put_every_host_on_top_in_both_directions(tmp_path: Path) -> None:
    events = store(tmp_path / "e", [(None, "a", "b", "6", 22), (None, "a", "a", "6", 22)])
    view = build_view(events)
    assert (view.name, view.hosts) == ("ports", "top")
    assert links(view) == {("a", "b", "6-22-out", 1.0), ("b", "a", "6-22-in", 1.0)}


def test_a_port_of_two_protocols_is_two_types(tmp_path: Path) -> None:
    events = store(tmp_path / "e", [(None, "a", "b", "6", 53), (None, "a", "b", "17", 53)])
    assert set(build_view(events, "ports").graph.types) == {"6-53-in", "6-53-out", "17-53-in", "17-53-out"}


def test_internal_is_what_the_prefixes_say_and_not_what_is_private(tmp_path: Path) -> None:
    rows = [(None, f"142.20.56.{n}", "10.0.0.9", "tcp", 445) for n in range(3)]
    events = store(tmp_path / "e", [*rows, (None, "142.20.56.0", "142.20.57.1", "tcp", 445)])
    assert build_view(events, "flows").graph.tops == ("10.0.0.9",)  # private ones only
    view = build_view(events, "flows", ["142.20.0.0/16"])
    assert view.graph.tops == ("142.20.56.0", "142.20.56.1", "142.20.56.2")
    assert view.graph.bottoms == ("10.0.0.9",)
    assert build_view(events, "auto", ["142.20.0.0/16"]).name == "flows"
    with pytest.raises(UsageError, match="is no prefix"):
        build_view(events, "flows", ["142.20.1.0/16"])


def test_rare_ports_are_one_type(tmp_path: Path) -> None:
    often = [(None, "a", f"b{i}", None, port) for port in range(20) for i in range(2)]
    events = store(tmp_path / "e", [*often, *((None, "c", "d", None, 1000 + n) for n in range(9))])
    types = set(build_view(events, "ports").graph.types)
    assert len(types) == 2 * 21
    assert "rare-out" in types


def test_names_are_internal_and_public_addresses_are_not() -> None:
    hosts = ["C123", "10.1.1.1", "192.168.0.9", "fd00::1", "8.8.8.8", "2606:4700::1111"]
    assert [is_internal(host) for host in hosts] == [True, True, True, True, False, False]


def test_a_view_the_events_do_not_support_is_refused(tmp_path: Path) -> None:
    events = store(tmp_path / "e", [(None, "a", "b", None, None)])
    for view, problem in (("auth", "no event names a user"), ("flows", "no event crosses"), ("x", "unknown")):
        with pytest.raises(UsageError, match=problem):
            build_view(events, view)
    with pytest.raises(UsageError, match="2 hosts cannot form 5 silos"):
        fit_silos(build_view(events, "ports"), 5)
    assert set(VIEWS) == {"auth", "flows", "ports"}


def test_the_ports_view_of_the_simulated_company_separates_roles(tmp_path: Path) -> None:
    simulation = simulate(SimulationConfig(sites=3, hosts=200, days=3))
    write_events(simulation.events, tmp_path / "e")
    silos, model = fit_silos(build_view(tmp_path / "e", "ports"), 4, starts=6)
    role = dict(zip(simulation.hosts["host"].to_pylist(), simulation.hosts["role"].to_pylist(), strict=True))
    hosts = sorted(silos)
    assert adjusted_rand_score([role[host] for host in hosts], [silos[host] for host in hosts]) > 0.8
    assert set(silos.values()) == {f"silo{n}" for n in range(model.sizes[0])}
