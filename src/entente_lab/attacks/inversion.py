"""Inversion of one update: which hosts, which connections and which examples were behind it?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from entente.detection.metrics import area_under_roc
from entente.graphs.temporal import Int32, TemporalGraph
from entente_lab.attacks.membership import Floats, Sighting, row_steps

SAMPLE = 4000
"""Pairs, or examples of a kind, that are compared."""


def hosts_by_rows(
    seen: Sighting, tables: tuple[str, ...], rows: Int32, own: NDArray[np.bool_]
) -> float | None:
    """AUC of "this host is in the silo" from how far its rows moved; `rows` as the attacker has them."""
    length = row_steps(seen, tables)
    if length is None:
        return None
    return area_under_roc(length[rows].min(axis=1), own)


def edges_by_rows(
    seen: Sighting, tables: tuple[str, ...], graph: TemporalGraph, rows: Int32, rng: np.random.Generator
) -> float | None:
    """AUC of "these two hosts talk" from how alike their rows' steps are, among hosts that occur."""
    if not tables:
        return None
    steps = np.concatenate(
        [(seen.after[name] - seen.before[name]).reshape(len(seen.after[name]), -1) for name in tables], axis=1
    ).astype(np.float64)
    host = steps[rows].sum(axis=1)
    host /= np.maximum(np.linalg.norm(host, axis=1, keepdims=True), 1e-12)
    present = np.unique(np.concatenate((graph.src, graph.dst)))
    known = np.unique(graph.src.astype(np.int64) * graph.num_nodes + graph.dst)
    chosen = rng.choice(known, min(SAMPLE, len(known)), replace=False)
    src, dst = rng.choice(present, (2, len(chosen)))
    drawn = src.astype(np.int64) * graph.num_nodes + dst
    drawn = drawn[~np.isin(drawn, known) & (src != dst)]
    pairs = np.concatenate((chosen, drawn))
    alike = (host[pairs // graph.num_nodes] * host[pairs % graph.num_nodes]).sum(axis=1)
    return area_under_roc(alike, np.arange(len(pairs)) < len(chosen))


def examples_by_gradient(
    seen: Sighting,
    layer: str,
    members: NDArray[np.float32],
    others: NDArray[np.float32],
    rng: np.random.Generator,
) -> float | None:
    """AUC of "this example was trained on" from its distance to what the first layer's step spells out.

    Of a step on one example, weights over bias is the example itself, in every unit. Of a step on many it is
    a mixture; an example is called a member by the nearest of these mixtures.
    """
    weight = (seen.after[f"{layer}.weight"] - seen.before[f"{layer}.weight"]).astype(np.float64)
    bias = (seen.after[f"{layer}.bias"] - seen.before[f"{layer}.bias"]).astype(np.float64)
    moved = np.abs(bias) > 1e-9
    if not moved.any() or not len(members) or not len(others):
        return None
    spelt: Floats = np.clip(weight[moved] / bias[moved, None], -10, 10)
    drawn = [part[rng.choice(len(part), min(SAMPLE, len(part)), replace=False)] for part in (members, others)]
    table = np.concatenate(drawn).astype(np.float64)
    nearest = np.min([np.linalg.norm(table - one, axis=1) for one in spelt], axis=0)
    return area_under_roc(-nearest, np.arange(len(table)) < len(drawn[0]))
