"""Edges, hosts and snapshots ranked by their highest edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.detection.scored import ScoredEdges
from entente.detection.standing import rank

WIDTH = 10


def scored(**changes: Any) -> ScoredEdges:
    columns: dict[str, Any] = {
        "hosts": np.array(["a", "b", "c"]),
        "silos": ("x",),
        "thresholds": (0.8,),
        "width": WIDTH,
        "window": np.array([0, 0, 10, 10, 20]),
        "src": np.array([0, 1, 0, 2, 2], dtype=np.int32),
        "dst": np.array([1, 2, 2, 0, 1], dtype=np.int32),
        "score": np.array([0.2, 0.5, 0.9, 0.3, 0.4], dtype=np.float32),
        "silo": np.zeros(5, dtype=np.int16),
        "own_source": np.ones(5, dtype=bool),
        "alert": np.array([False, False, True, False, False]),
        "label": np.array([0, 0, 1, 0, 0], dtype=np.uint8),
    }
    return ScoredEdges(**(columns | changes))


def test_hosts_stand_as_their_highest_edge_does() -> None:
    found = rank(scored(), "host", 10)
    assert [(p.src, p.dst, p.edges, p.alerts, p.malicious) for p in found.places] == [
        ("a", "c", 2, 1, True),
        ("b", "c", 1, 0, False),
        ("c", "b", 2, 0, False),
    ]
    assert (found.of, found.ap, found.auc) == (3, 1.0, 1.0)


def test_snapshots_are_windows_with_all_their_edges() -> None:
    found = rank(scored(), "snapshot", 2)
    assert [(p.window, p.edges) for p in found.places] == [(10, 2), (0, 2)]
    assert found.of == 3


def test_an_edge_of_two_silos_is_ranked_once() -> None:
    twice = {
        name: np.repeat(getattr(scored(), name), 2) for name in ("window", "src", "dst", "alert", "label")
    }
    both = scored(
        **twice,
        silos=("x", "y"),
        thresholds=(0.8, 0.8),
        score=np.array([0.2, 0.99, 0.5, 0.1, 0.9, 0.1, 0.3, 0.1, 0.4, 0.1], dtype=np.float32),
        silo=np.tile([0, 1], 5).astype(np.int16),
        own_source=np.tile([True, False], 5),
    )
    assert [p.score for p in rank(both, "edge", 3).places] == pytest.approx([0.9, 0.5, 0.4])


def test_without_labels_nothing_is_called_malicious() -> None:
    found = rank(scored(label=None), "edge", 1)
    assert found.places[0].malicious is None
    assert found.ap is None
