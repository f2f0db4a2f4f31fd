"""Hosts find their rows, and nobody outside the silo finds the hosts."""

from __future__ import annotations

import numpy as np
import pytest

from entente.errors import ConfigError, GraphError
from entente.graphs.identity import KeyedHash, SharedIndex, collisions

SECRET = b"0123456789abcdef0123456789abcdef"


def test_a_shared_index_gives_every_host_its_own_row() -> None:
    index = SharedIndex(["b", "a", "c", "a"])
    assert index.table_size == 3
    assert index.rows(["c", "a"]).tolist() == [[2], [0]]
    with pytest.raises(GraphError, match="keyed-hash"):
        index.rows(["zz"])


def test_a_keyed_hash_depends_on_name_and_secret_only() -> None:
    one, two = KeyedHash(SECRET, 1000), KeyedHash(SECRET, 1000)
    assert (one.rows(["x", "y"]) == two.rows(["y", "x"])[::-1]).all()
    assert not (one.rows(["x", "y"]) == KeyedHash(SECRET[::-1], 1000).rows(["x", "y"])).all()


def test_a_keyed_hash_never_gives_a_host_the_same_row_twice() -> None:
    rows = KeyedHash(SECRET, 16).rows([f"h{i}" for i in range(2000)])
    assert (rows[:, 0] != rows[:, 1]).all()
    assert rows.min() == 0
    assert rows.max() == 15


def test_collisions_come_out_as_chance_predicts() -> None:
    hosts = [f"host-{i}" for i in range(3000)]
    found = collisions(KeyedHash(SECRET, 2048).rows(hosts), 2048)
    assert found.identical_expected == pytest.approx(3000 * 2999 / 2048 / 2047)
    assert abs(found.identical - found.identical_expected) < 5 * max(1.0, found.identical_expected**0.5)
    assert found.sharing == pytest.approx(found.sharing_expected, rel=0.05)


def test_a_shared_index_reports_no_collision() -> None:
    found = collisions(SharedIndex(["a", "b"]).rows(["a", "b"]), 2)
    assert (found.identical, found.sharing, found.identical_expected) == (0, 0, 0.0)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ConfigError, match="openssl"):
        KeyedHash(b"short", 100)


def test_rows_are_spread_evenly() -> None:
    rows = KeyedHash(SECRET, 64).rows([f"h{i}" for i in range(20_000)])
    counts = np.bincount(rows.reshape(-1), minlength=64)
    assert counts.min() > 0.7 * counts.mean()
