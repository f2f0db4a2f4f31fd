"""A host has one number for good, on disk too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from entente.errors import GraphError
from entente.graphs.hosts import UNKNOWN, HostTable


def table(names: list[str]) -> HostTable:
    count = len(names)
    rows = np.arange(2 * count, dtype=np.int32).reshape(count, 2)
    return HostTable(np.array(names, dtype=np.str_), np.arange(count) % 2 == 0, rows)


def test_numbers_are_places_and_unknown_hosts_have_none() -> None:
    hosts = table(["c", "a", "b"])
    assert hosts.numbers(np.array(["a", "zz", "b", "", "c"])).tolist() == [1, UNKNOWN, 2, UNKNOWN, 0]
    assert HostTable.empty(2).numbers(np.array(["a"])).tolist() == [UNKNOWN]


def test_new_hosts_come_last_and_the_others_keep_their_numbers() -> None:
    hosts = table(["c", "a"])
    longer = hosts.extend(
        np.array(["a-much-longer-name"]), np.array([True]), np.array([[7, 8]], dtype=np.int32)
    )
    assert longer.names.tolist() == ["c", "a", "a-much-longer-name"]
    assert longer.rows.tolist() == [[0, 1], [2, 3], [7, 8]]
    assert longer.own.tolist() == [True, False, True]
    assert longer.own_hosts == 2
    assert len(hosts) == 2


@pytest.mark.parametrize("names", [["a"], ["x", "x"]])
def test_a_host_is_not_added_twice(names: list[str]) -> None:
    with pytest.raises(GraphError, match="twice"):
        table(["c", "a"]).extend(
            np.array(names), np.ones(len(names), dtype=bool), np.zeros((len(names), 2), dtype=np.int32)
        )


@pytest.mark.parametrize("names", [[], ["b", "ä", "host with space"]])
def test_a_table_survives_parquet(tmp_path: Path, names: list[str]) -> None:
    hosts = table(names)
    parquet.write_table(hosts.to_arrow(), tmp_path / "hosts.parquet")
    back = HostTable.from_arrow(parquet.read_table(tmp_path / "hosts.parquet"))
    for name in ("names", "own", "rows"):
        np.testing.assert_array_equal(getattr(back, name), getattr(hosts, name))
    assert back.rows.shape == (len(names), 2)


def test_another_table_is_refused() -> None:
    with pytest.raises(GraphError, match="not a host table"):
        HostTable.from_arrow(pa.table({"host": ["a"]}))
