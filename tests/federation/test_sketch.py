"""The sketch and its similarity: the fast kernel against lists, dictionaries and sorting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.errors import ConfigError
from entente.federation.reference import barabasi_albert
from entente.federation.sketch import Histogram, jaccard, sketch

edge_lists = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40)


def plain_sketch(edges: Any, labels: str, iterations: int) -> Counter[Any]:
    """The paper's Algorithm 1 with nested tuples for labels: no hash, so no collision either."""
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        if a != b:
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    degree = {v: len(near) for v, near in neighbours.items()}
    current: dict[int, Any] = {v: d if labels == "degree" else d.bit_length() - 1 for v, d in degree.items()}
    histogram = Counter((0, label) for label in current.values())
    for depth in range(1, iterations + 1):
        current = {
            v: (current[v], tuple(sorted((current[u] for u in near), key=repr)))
            for v, near in neighbours.items()
        }
        histogram.update((depth, label) for label in current.values())
    return histogram


def plain_jaccard(one: Counter[Any], other: Counter[Any]) -> float:
    every = set(one) | set(other)
    largest = sum(max(one[label], other[label]) for label in every)
    return sum(min(one[label], other[label]) for label in every) / largest if largest else 0.0


def arrays(edges: Any) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


@given(
    one=edge_lists,
    other=edge_lists,
    labels=st.sampled_from(["degree", "log-degree"]),
    iterations=st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_the_kernel_gives_the_plain_histogram_and_similarity(
    one: Any, other: Any, labels: Any, iterations: Any
) -> None:
    fast = [sketch(*arrays(edges), labels, iterations) for edges in (one, other)]
    plain = [plain_sketch(edges, labels, iterations) for edges in (one, other)]
    for histogram, counter in zip(fast, plain, strict=True):
        assert histogram.total == sum(counter.values())
        for depth, (_, counts) in enumerate(histogram.iterations):
            plainly = sorted(count for (at, _), count in counter.items() if at == depth)
            assert sorted(counts.tolist()) == plainly
    assert jaccard(*fast) == pytest.approx(plain_jaccard(*plain), abs=1e-12)


@pytest.mark.parametrize("most", [65_534, 65_535, 65_536, 3_000_000])
def test_large_host_numbers_are_only_numbers(most: int) -> None:
    few = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 2), (3, 3)]
    small, large = sketch(*arrays(few)), sketch(*arrays([(most - a, most - b) for a, b in few]))
    assert jaccard(small, large) == 1.0


@given(edges=edge_lists, seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_host_numbers_and_edge_order_do_not_matter(edges: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.permutation(13)
    moved = [(int(names[b]), int(names[a])) for a, b in edges]
    rng.shuffle(moved)
    assert jaccard(sketch(*arrays(edges)), sketch(*arrays(moved))) == (
        1.0 if any(a != b for a, b in edges) else 0.0
    )


def test_labels_mean_the_same_in_graphs_of_different_size() -> None:
    """Numbers handed out per graph would make two rings alike by chance only."""
    ring = [(k, (k + 1) % 10) for k in range(10)]
    half = [(k, (k + 1) % 5) for k in range(5)]
    assert jaccard(sketch(*arrays(ring)), sketch(*arrays(half))) == 0.5


def test_raw_degrees_see_no_likeness_beyond_depth_0_between_two_reference_graphs() -> None:
    """The trap of the paper's labels: two reference graphs of one kind look unlike at depth >= 1."""
    one, other = barabasi_albert(4000, 5, 1), barabasi_albert(4000, 5, 2)
    at_depth_0 = jaccard(sketch(*one, "degree", 0), sketch(*other, "degree", 0))
    at_all = jaccard(sketch(*one, "degree", 3), sketch(*other, "degree", 3))
    assert at_depth_0 > 0.9
    assert at_all < at_depth_0 / 3


def test_unknown_first_labels_are_named() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        sketch(np.array([0]), np.array([1]), "nonsense")


def test_two_empty_histograms_are_not_alike() -> None:
    empty = Histogram(())
    assert jaccard(empty, empty) == 0.0
