"""Events as a bipartite graph: who is clustered against whom, and by which types of link."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from entente.errors import UsageError
from entente.partition.bipartite import Bipartite, build_bipartite
from entente.partition.block_model import BlockModel, fit_block_model
from entente.partition.pairs import count_events

MOST_TYPES = 20
"""Kinds or ports that are types of their own; the rarer ones are one type together."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

VIEWS: Final = {
    "auth": "users x hosts they log on to, by authentication kind (LANL)",
    "flows": "internal x external hosts, by service and direction (OpTC)",
    "ports": "hosts x hosts, by protocol, port and direction (Pivoting)",
}


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A bipartite graph, and which of its sides are the hosts that become silos."""

    name: str
    graph: Bipartite
    hosts: Literal["top", "bottom"]


def build_view(events: Path, name: str = "auto", internal: Sequence[str] = ()) -> View:
    """Read the events as one of VIEWS; auto = auth when most events name a user, else flows when a tenth
    of the links crosses the border between internal and external hosts, else ports.

    `internal` are the company's own prefixes (142.20.0.0/16); without them private addresses are internal.
    """
    if name not in (*VIEWS, "auto"):
        raise UsageError(f"unknown view {name!r}", remedy=f"Choose auto, {', '.join(VIEWS)}.")
    networks = read_prefixes(internal)
    table = count_events(events, ("user", "src", "dst", "kind", "port"))
    if name == "auto":
        name = _suitable(table, networks)
    if name == "flows":
        return _flows(table, networks)
    return _auth(table) if name == "auth" else _ports(table)


def fit_silos(
    view: View, k: int | None, *, starts: int = 12, seed: int = 0
) -> tuple[dict[str, str], BlockModel]:
    """{host: silo} from the block model with k blocks on either side, or as many as ICL chooses.

    Silos are silo0, silo1, ... by falling size of their block.
    """
    graph = view.graph.presence()
    top = bottom = None
    if k is not None:
        hosts = graph.bottoms if view.hosts == "bottom" else graph.tops
        if not 1 <= k <= len(hosts):
            raise UsageError(f"{len(hosts)} hosts cannot form {k} silos", remedy="Choose a smaller -k.")
        top, bottom = min(k, len(graph.tops)), min(k, len(graph.bottoms))
    model = fit_block_model(graph, top, bottom, starts=starts, seed=seed)
    names, blocks = (
        (graph.bottoms, model.bottom_block) if view.hosts == "bottom" else (graph.tops, model.top_block)
    )
    return {host: f"silo{block}" for host, block in zip(names, blocks.tolist(), strict=True)}, model


def read_prefixes(internal: Sequence[str]) -> tuple[Network, ...]:
    """Prefixes such as 142.20.0.0/16."""
    found = []
    for text in internal:
        try:
            found.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise UsageError(
                f"--internal {text!r} is no prefix ({error})", remedy="Example: --internal 142.20.0.0/16"
            ) from error
    return tuple(found)


def is_internal(host: str, networks: Sequence[Network] = ()) -> bool:
    """Names are internal; addresses are when they lie in `networks`.

    Without networks, private addresses are internal (RFC 1918, RFC 4193, link-local ...).
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return True
    return any(address in network for network in networks) if networks else address.is_private


def _suitable(table: pa.Table, networks: Sequence[Network]) -> str:
    named = pc.sum(table.filter(pc.is_valid(table["user"]))["events"]).as_py() or 0
    if 2 * named > pc.sum(table["events"]).as_py():
        return "auth"
    src, dst = _internal(table["src"], networks), _internal(table["dst"], networks)
    crossing = pc.sum(pc.not_equal(src, dst)).as_py() or 0
    return "flows" if 10 * crossing > len(table) else "ports"


def _auth(table: pa.Table) -> View:
    table = table.filter(pc.is_valid(table["user"]))
    if not len(table):
        raise UsageError("no event names a user", remedy="Choose --view flows or ports.")
    # The hosts a user logs on to; where from is left to `cover`, which puts a machine where its events go.
    # With the sources in the graph, blocks are roles (all workstations, all servers) and no silos at all.
    graph = build_bipartite(
        _list(table["user"]), _list(table["dst"]), _list(_frequent(table["kind"])), _list(table["events"])
    )
    return View("auth", graph, "bottom")


def _flows(table: pa.Table, networks: Sequence[Network]) -> View:
    src, dst = _internal(table["src"], networks), _internal(table["dst"], networks)
    out = table.filter(pc.and_(src, pc.invert(dst)))
    into = table.filter(pc.and_(dst, pc.invert(src)))
    if not len(out) + len(into):
        raise UsageError(
            "no event crosses between internal and external hosts",
            remedy="Name the company's own prefixes with --internal, or choose --view ports or auth.",
        )
    both = pa.concat_tables([out, into])
    service = _service(both)
    direction = pa.array(["-out"] * len(out) + ["-in"] * len(into))
    graph = build_bipartite(
        _list(out["src"], into["dst"]),
        _list(out["dst"], into["src"]),
        _list(pc.binary_join_element_wise(service, direction, "")),
        _list(both["events"]),
    )
    return View("flows", graph, "top")


def _ports(table: pa.Table) -> View:
    table = table.filter(pc.not_equal(table["src"], table["dst"]))
    service = _service(table)
    # Every pair in both directions, so that each host stands on top with all it does and suffers.
    graph = build_bipartite(
        _list(table["src"], table["dst"]),
        _list(table["dst"], table["src"]),
        _list(_suffixed(service, "-out"), _suffixed(service, "-in")),
        _list(table["events"], table["events"]),
    )
    return View("ports", graph, "top")


def _service(table: pa.Table) -> pa.ChunkedArray:
    """Protocol (or program) and port of every link."""
    return _frequent(pc.binary_join_element_wise(_text(table["kind"]), _text(table["port"]), "-"))


def _internal(hosts: pa.ChunkedArray, networks: Sequence[Network]) -> pa.Array:
    names = hosts.unique()
    known = pa.array([is_internal(name, networks) for name in names.to_pylist()], pa.bool_())
    return known.take(pc.index_in(hosts, value_set=names).combine_chunks())


def _frequent(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text with its MOST_TYPES most frequent values; the others become `rare`."""
    text = _text(column)
    counts = sorted((-c["counts"], c["values"]) for c in pc.value_counts(text).to_pylist())
    kept = pa.array([value for _, value in counts[:MOST_TYPES]], pa.string())
    return pc.if_else(pc.is_in(text, value_set=kept), text, "rare")


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(column.cast(pa.string()), "?")


def _suffixed(column: pa.ChunkedArray, suffix: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(column, suffix, "")


def _list(*columns: pa.ChunkedArray) -> list[Any]:
    return [value for column in columns for value in column.to_pylist()]
