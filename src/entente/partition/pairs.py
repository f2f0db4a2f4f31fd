"""Events counted per combination of columns, and hosts placed by the company they keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entente.errors import LogError
from entente.logs.events import scan_events
from entente.partition.base import OTHER, Assignment

IntArray = NDArray[np.int64]
MERGE = 4_000_000
"""Partial counts kept before they are merged: bounds memory on logs of any length."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Distinct directed host pairs without self loops, and the number of events of each."""

    hosts: NDArray[np.str_]  # sorted
    src: IntArray
    dst: IntArray
    events: IntArray


def count_events(events: Path, columns: Sequence[str]) -> pa.Table:
    """The distinct combinations of `columns`, with `events`, sorted; reads the log in a stream."""
    kept: list[pa.Table] = []
    fresh = 0
    for batch in scan_events(events, columns):
        table = pa.Table.from_batches([batch]).append_column("events", pa.repeat(pa.scalar(1), len(batch)))
        kept.append(_merge([table], columns))
        fresh += len(kept[-1])
        if fresh > max(MERGE, len(kept[0])):
            kept, fresh = [_merge(kept, columns)], 0
    if not kept:
        raise LogError("holds no event", where=events, remedy="Ingest a log first.")
    return _merge(kept, columns).sort_by([(name, "ascending") for name in columns])


def _merge(tables: list[pa.Table], columns: Sequence[str]) -> pa.Table:
    groups = pa.concat_tables(tables).group_by(list(columns)).aggregate([("events", "sum")])
    return groups.rename_columns([*columns, "events"])


def host_pairs(events: Path) -> Pairs:
    counted = count_events(events, ("src", "dst"))
    counted = counted.filter(pc.not_equal(counted["src"], counted["dst"]))
    hosts, src, dst = index_hosts(counted["src"], counted["dst"])
    return Pairs(hosts, src, dst, counted["events"].to_numpy().astype(np.int64))


def index_hosts(*columns: pa.ChunkedArray) -> tuple[NDArray[np.str_], IntArray, IntArray]:
    """Sorted names of two columns, and each column as numbers into them."""
    left, right = columns
    names = pa.concat_arrays([left.unique(), right.unique()]).unique()
    hosts = np.sort(np.array(names.to_pylist(), dtype=np.str_))
    lookup = pa.array(hosts.tolist(), pa.string())
    numbers = [pc.index_in(column, value_set=lookup).to_numpy().astype(np.int64) for column in columns]
    return hosts, numbers[0], numbers[1]


def cover(known: dict[str, str], pairs: Pairs) -> Assignment:
    """Place every host of the events: as `known` says, else where most of its events go, else `other`.

    Hosts whose neighbours are unplaced too wait for the next pass; ties go to the silo first by name.
    Hosts of `known` without any event stay. A host list need not spell names as `ingest` does: where the
    case differs, the host of the events counts.
    """
    present = set(pairs.hosts.tolist())
    spelt = {host.lower(): host for host in sorted(present)}
    known = {host if host in present else spelt.get(host.lower(), host): silo for host, silo in known.items()}
    silos = sorted(set(known.values()))
    number = {silo: index for index, silo in enumerate(silos)}
    place = np.array([number.get(known.get(host, ""), -1) for host in pairs.hosts.tolist()], dtype=np.int64)
    while len(silos) and (place < 0).any():
        votes = np.zeros((len(place), len(silos)))
        for one, two in ((pairs.src, pairs.dst), (pairs.dst, pairs.src)):
            heard = (place[one] < 0) & (place[two] >= 0)
            np.add.at(votes, (one[heard], place[two[heard]]), pairs.events[heard])
        reached = votes.any(axis=1)
        if not reached.any():
            break
        place[reached] = votes[reached].argmax(axis=1)
    placed = dict(known)
    for host, silo in zip(pairs.hosts.tolist(), place.tolist(), strict=True):
        placed.setdefault(host, silos[silo] if silo >= 0 else OTHER)
    return Assignment.from_mapping(placed)
