"""Where the block model begins to climb."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from entente.partition.bipartite import FloatArray, IntArray


def draw_start(
    top_profile: Callable[[FloatArray], FloatArray],
    nodes: tuple[int, int],
    blocks: tuple[int, int],
    rng: np.random.Generator,
    kind: int,
) -> tuple[FloatArray, FloatArray]:
    """Soft memberships of both sides. Kind 0 is pure chance; kind 1 deals the bottom nodes out at
    random and groups the top nodes by what they then look alike. Each finds optima the other misses.
    """
    if kind == 0:
        return rng.dirichlet(np.ones(blocks[0]), nodes[0]), rng.dirichlet(np.ones(blocks[1]), nodes[1])
    bottom = np.eye(blocks[1])[rng.integers(0, blocks[1], nodes[1])]
    profile = top_profile(bottom)
    shares = profile / np.maximum(profile.sum(axis=1, keepdims=True), 1e-300)
    top = np.eye(blocks[0])[_k_means(shares, blocks[0], rng)]
    # Not quite certain, so that the first steps can still undo it.
    return 0.8 * top + 0.2 / blocks[0], 0.8 * bottom + 0.2 / blocks[1]


def _k_means(points: FloatArray, k: int, rng: np.random.Generator, iterations: int = 15) -> IntArray:
    """Lloyd's algorithm from centres drawn far apart from each other (k-means++)."""
    centres = points[rng.integers(len(points))][None]
    nearest = _distances(points, centres)[:, 0]
    while len(centres) < k:
        chance = nearest / nearest.sum() if nearest.sum() > 0 else None
        centres = np.vstack([centres, points[rng.choice(len(points), p=chance)]])
        nearest = np.minimum(nearest, _distances(points, centres[-1:])[:, 0])
    group: IntArray = np.zeros(len(points), dtype=np.int64)
    for _ in range(iterations):
        group = _distances(points, centres).argmin(axis=1)
        member = np.eye(k)[group]
        size = member.sum(axis=0)[:, None]
        centres = np.where(size > 0, member.T @ points / np.maximum(size, 1), centres)
    return group


def _distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    square: FloatArray = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return np.maximum(square, 0, out=square)
