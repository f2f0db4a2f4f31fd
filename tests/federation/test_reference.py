"""The reference graph: the fast kernel against growing it node by node."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.errors import FederationError
from entente.federation.reference import barabasi_albert

WORD = (1 << 64) - 1


def mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def grown_node_by_node(n: int, m: int, seed: int) -> list[tuple[int, int]]:
    """Plain growth: a list of edge ends, one draw after the other, a repeated target drawn again."""
    m = min(m, n - 1)
    if m < 1:
        return []
    key = mix(seed & WORD)
    ends: list[int] = []
    edges: list[Any] = []
    for node in range(m, n):
        first, targets, drawn = len(edges), [], []
        for slot in range(m):
            attempt = 0
            while True:
                if node == m:
                    target = slot
                else:
                    target = ends[mix((mix((first + slot) ^ key) + attempt) & WORD) % len(ends)]
                if attempt == 0:
                    drawn.append(target)
                if target not in targets:
                    break
                attempt += 1
            targets.append(target)
        for target, once in zip(targets, drawn, strict=True):
            edges.append((node, target))
            ends.extend((node, once))  # later nodes draw by the first draws
    return edges


@given(n=st.integers(0, 60), m=st.integers(1, 9), seed=st.integers(0, WORD))
@settings(max_examples=150, deadline=None)
def test_the_kernel_grows_what_plain_growth_grows(n: int, m: int, seed: int) -> None:
    src, dst = barabasi_albert(n, m, seed)
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == grown_node_by_node(n, m, seed)


def test_the_kernel_agrees_at_a_size_with_long_chains() -> None:
    src, dst = barabasi_albert(5000, 5, 3)
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == grown_node_by_node(5000, 5, 3)


def test_the_graph_is_simple_and_every_new_node_has_m_edges() -> None:
    n, m = 20_000, 5
    src, dst = barabasi_albert(n, m, 0)
    assert len(src) == m * (n - m)
    assert (dst < src).all()
    assert (np.bincount(src, minlength=n)[m:] == m).all()
    assert len(np.unique(src.astype(np.int64) * n + dst)) == len(src)


def test_the_bits_are_the_same_on_every_machine() -> None:
    src, dst = barabasi_albert(1000, 5, 42)
    digest = hashlib.sha256(src.astype("<i4").tobytes() + dst.astype("<i4").tobytes()).hexdigest()
    assert digest == "b0111f7ffc6798396ea6170df973b639d2b5a53caf24ddb5e58c370a2e38d411"


def test_degrees_follow_the_power_law_of_preferential_attachment() -> None:
    """P(degree >= 2k) / P(degree >= k) tends to 1/4 (exponent 3), as networkx's generator gives too."""
    import networkx

    n, m = 20_000, 5
    src, dst = barabasi_albert(n, m, 1)
    ours = np.bincount(np.concatenate((src, dst)))
    theirs = np.array([d for _, d in networkx.barabasi_albert_graph(n, m, seed=1).degree()])
    for k in (10, 20, 40, 80):
        assert (ours >= k).mean() == pytest.approx((theirs >= k).mean(), rel=0.15)


def test_a_graph_beyond_the_limit_is_refused_before_it_is_grown() -> None:
    with pytest.raises(FederationError, match="max_hosts"):
        barabasi_albert(1 << 60, 5, 0)
