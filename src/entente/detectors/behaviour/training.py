"""A silo's own history -> labelled examples: its edges, and those of campaigns drawn into replicas of it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.detectors.behaviour.beside import describe_each
from entente.detectors.behaviour.features import COLUMN, scaled
from entente.detectors.behaviour.injection.campaigns import Recipe
from entente.detectors.behaviour.injection.replica import WORK, Injector
from entente.graphs.temporal import Float32, TemporalGraph

WARM_UP = 0.4
"""Share of the windows, the first ones, that only fill the memory: there everything is new."""
KNOWN_KEPT = 0.12
"""Share of benign edges of known pairs that become examples; each stands for the others."""

WORK_WEIGHT = 0.2
"""What an edge of benign work that was drawn counts beside one that the log has."""
FREE, LIGHTER = 4.0, 0.75
"""A benign edge of a source with n > FREE new targets within a day weighs (n / FREE) ** -LIGHTER: one scanner
does not drown everybody else."""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Scaled features, whether the edge belongs to a campaign, and how much it counts."""

    features: Float32  # [examples, features]
    positive: NDArray[np.bool_]
    weight: Float32

    def __len__(self) -> int:
        return len(self.positive)


def draw_examples(
    graph: TemporalGraph,
    first: int,
    replicas: int,
    rng: np.random.Generator,
    recipe: Recipe,
    warm_up: float = WARM_UP,
    work: float = WORK_WEIGHT,
) -> Examples:
    """Edges of the windows from `first` on, in several replicas of `graph` with campaigns drawn into them.

    Campaigns begin after the warm-up. An edge of a campaign weighs its campaign's size to the power of -1/2,
    so that large campaigns do not drown small ones; together campaigns weigh as much as they have edges. An
    edge of benign work weighs `work`. A new benign edge weighs the less the more its source does in a day.
    """
    injector = Injector(graph, round(graph.num_windows * warm_up), recipe)
    drawn = []
    for _ in range(replicas):
        replica = injector.draw(rng)
        drawn.append((replica, rng.random(len(replica.campaign))))
    parts = []
    for (replica, chance), raw in zip(
        drawn, describe_each([replica.graph for replica, _ in drawn]), strict=True
    ):
        campaign, window = replica.campaign, replica.graph.window_of_edge()
        positive = campaign > 0
        known = (campaign == 0) & (raw[:, 0] == 0)
        weight = np.ones(len(campaign), dtype=np.float32)
        weight[known] = 1.0 / KNOWN_KEPT
        weight[campaign == WORK] = work
        busy = np.maximum(raw[:, COLUMN["new_24"]] / FREE, 1.0) ** -LIGHTER
        weight[~positive & ~known] *= busy[~positive & ~known]
        if positive.any():
            share = 1.0 / np.sqrt(np.bincount(campaign[positive])[campaign[positive]])
            weight[positive] = share / share.mean()
        chosen = (window >= first) & ~(known & (chance >= KNOWN_KEPT))
        parts.append(Examples(scaled(raw[chosen]), positive[chosen], weight[chosen]))
    return Examples(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.positive for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def graph_seed(graph: TemporalGraph, purpose: int) -> np.random.Generator:
    """The same history gives the same campaigns, in every process and round."""
    content = [
        zlib.crc32(np.ascontiguousarray(part).tobytes()) for part in (graph.src, graph.dst, graph.offsets)
    ]
    return np.random.default_rng([purpose, *content])


def joined(graph: TemporalGraph, later: TemporalGraph) -> TemporalGraph:
    """Two consecutive graphs of one silo as one."""
    context = None
    if graph.context is not None and later.context is not None:
        context = graph.context.followed_by(later.context)
    return TemporalGraph(
        rows=max(graph.rows, later.rows, key=len),
        table_size=graph.table_size,
        start=graph.start,
        width=graph.width,
        offsets=np.concatenate((graph.offsets, graph.offsets[-1] + later.offsets[1:])),
        src=np.concatenate((graph.src, later.src)),
        dst=np.concatenate((graph.dst, later.dst)),
        time=np.concatenate((graph.time, later.time)),
        weight=np.concatenate((graph.weight, later.weight)),
        context=context,
    )
