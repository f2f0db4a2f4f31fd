"""Multilayer Poisson latent block model: clusters of both sides of a bipartite graph at once.

A link of type l between top node i and bottom node j has a Poisson weight with mean
mu_i * nu_j * theta[g, h, l], where g and h are their blocks and mu and nu the nodes' activity: without
them the model would sort nodes by volume instead of by habit. Inference is variational EM over soft
memberships, then classification EM to hard ones, from several starts; the start with the highest
complete-data log-likelihood wins. The integrated classification likelihood (ICL) chooses sizes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from entente.errors import UsageError
from entente.partition.bipartite import Bipartite, FloatArray, IntArray
from entente.partition.block_starts import draw_start

LOG = logging.getLogger(__name__)
FLOOR = 1e-12  # of a rate or a share, so that its logarithm exists; far below one link per block


@dataclass(frozen=True, slots=True, eq=False)
class BlockModel:
    """The best fit. Blocks are numbered by falling size; empty ones were dropped and counted."""

    top_block: IntArray
    bottom_block: IntArray
    rates: FloatArray  # theta [top blocks, bottom blocks, types]
    log_likelihood: float
    icl: float
    asked: tuple[int, int]
    starts: tuple[float, ...]  # the log-likelihood that each start reached

    @property
    def sizes(self) -> tuple[int, int]:
        return self.rates.shape[0], self.rates.shape[1]

    @property
    def empty(self) -> tuple[int, int]:
        """Blocks that were asked for and hold nothing: on top, at the bottom."""
        return self.asked[0] - self.sizes[0], self.asked[1] - self.sizes[1]


@dataclass(frozen=True, slots=True, eq=False)
class LinkData:
    """The graph as sparse matrices, once for all starts."""

    by_top: Any  # rows (top, type), columns bottom
    by_bottom: Any  # rows (bottom, type), columns top
    mu: FloatArray
    nu: FloatArray
    types: int
    constant: float  # the part of the log-likelihood that no assignment changes

    @classmethod
    def of(cls, graph: Bipartite) -> LinkData:
        total = float(graph.weight.sum())
        mu: FloatArray = np.bincount(graph.top, graph.weight, len(graph.tops)).astype(np.float64)
        nu: FloatArray = (
            np.bincount(graph.bottom, graph.weight, len(graph.bottoms)).astype(np.float64) / total
        )
        activity = np.log(mu[graph.top]) + np.log(nu[graph.bottom])
        # Expected weights add up to the observed total for every assignment: - sum of means = - total.
        constant = float((graph.weight * activity).sum()) - total
        return cls(graph.by_top(), graph.by_bottom(), mu, nu, len(graph.types), constant)

    def top_profile(self, bottom: FloatArray) -> FloatArray:
        """Weight of every top node towards every (type, bottom block)."""
        profile: FloatArray = (self.by_top @ bottom).reshape(len(self.mu), -1)
        return profile

    def bottom_profile(self, top: FloatArray) -> FloatArray:
        """Weight of every bottom node towards every (type, top block)."""
        profile: FloatArray = (self.by_bottom @ top).reshape(len(self.nu), -1)
        return profile


def fit_block_model(
    graph: Bipartite,
    top_blocks: int | None = None,
    bottom_blocks: int | None = None,
    *,
    starts: int = 12,
    seed: int = 0,
    iterations: int = 200,
    most: int = 20,
) -> BlockModel:
    """Cluster the graph; sizes that are not given are chosen by ICL, growing one block at a time."""
    sizes = {"top": (top_blocks, len(graph.tops)), "bottom": (bottom_blocks, len(graph.bottoms))}
    for side, (blocks, nodes) in sizes.items():
        if blocks is not None and not 1 <= blocks <= nodes:
            raise UsageError(f"{nodes} {side} nodes cannot form {blocks} blocks", remedy="Choose fewer.")
    data = LinkData.of(graph)

    def fit(top: int, bottom: int) -> BlockModel:
        streams = np.random.SeedSequence([seed, top, bottom]).spawn(starts)
        model = _fit_size(data, (top, bottom), [np.random.default_rng(s) for s in streams], iterations)
        LOG.info(
            "%d x %d blocks: log-likelihood %.1f, ICL %.1f", top, bottom, model.log_likelihood, model.icl
        )
        return model

    best = fit(top_blocks or 1, bottom_blocks or 1)
    grow = [(1, 0), (0, 1), (1, 1)]
    if top_blocks is not None:
        grow = [(0, 1)]
    if bottom_blocks is not None:
        grow = [(1, 0)] if top_blocks is None else []
    limit = (min(most, len(graph.tops)), min(most, len(graph.bottoms)))
    while grow:
        wanted = [(best.asked[0] + g, best.asked[1] + h) for g, h in grow]
        models = [fit(*size) for size in wanted if size[0] <= limit[0] and size[1] <= limit[1]]
        better = max(models, key=lambda model: model.icl, default=best)
        if better.icl <= best.icl:
            break
        best = better
    return best


def log_likelihood(graph: Bipartite, top_block: IntArray, bottom_block: IntArray) -> float:
    """Complete-data log-likelihood of hard blocks, with the rates and block shares that suit them best.

    Without the term -log(weight!), which no assignment changes and which is 0 for presence.
    """
    top, bottom = _one_hot(top_block), _one_hot(bottom_block)
    return _complete(LinkData.of(graph), top, bottom)


def _fit_size(
    data: LinkData, asked: tuple[int, int], streams: list[np.random.Generator], iterations: int
) -> BlockModel:
    reached: list[float] = []
    best: tuple[FloatArray, FloatArray] | None = None
    for number, rng in enumerate(streams):
        top, bottom = draw_start(data.top_profile, (len(data.mu), len(data.nu)), asked, rng, kind=number % 2)
        top, bottom = _climb(data, top, bottom, iterations, hard=False)
        top, bottom = _climb(data, _harden(top), _harden(bottom), iterations, hard=True)
        reached.append(_complete(data, top, bottom))
        if best is None or reached[-1] > max(reached[:-1]):
            best = (top, bottom)
        if asked == (1, 1):
            break
    assert best is not None
    top, bottom = (_by_size(memberships) for memberships in best)
    blocks = top.shape[1], bottom.shape[1]
    # Parameters: rates, and the shares of blocks on either side.
    penalty = blocks[0] * blocks[1] * data.types * np.log(len(data.mu) * len(data.nu))
    penalty += (blocks[0] - 1) * np.log(len(data.mu)) + (blocks[1] - 1) * np.log(len(data.nu))
    return BlockModel(
        top_block=top.argmax(axis=1),
        bottom_block=bottom.argmax(axis=1),
        rates=_rates(data, data.top_profile(bottom), top, bottom)[0],
        log_likelihood=max(reached),
        icl=float(max(reached) - penalty / 2),
        asked=asked,
        starts=tuple(reached),
    )


def _climb(
    data: LinkData, top: FloatArray, bottom: FloatArray, iterations: int, *, hard: bool
) -> tuple[FloatArray, FloatArray]:
    """Alternate memberships and parameters until nothing moves: variational EM, classification if hard."""
    choose = _harden if hard else _soften
    for _ in range(iterations):
        before = top, bottom
        profile = data.top_profile(bottom)
        rates, _ = _rates(data, profile, top, bottom)
        logs = np.log(np.maximum(rates, FLOOR)).transpose(2, 1, 0).reshape(profile.shape[1], -1)
        expected = np.outer(data.mu, rates.sum(axis=2) @ (bottom.T @ data.nu))
        top = choose(profile @ logs - expected + _log_shares(top))

        rates, _ = _rates(data, profile, top, bottom)
        profile = data.bottom_profile(top)
        logs = np.log(np.maximum(rates, FLOOR)).transpose(2, 0, 1).reshape(profile.shape[1], -1)
        expected = np.outer(data.nu, (top.T @ data.mu) @ rates.sum(axis=2))
        bottom = choose(profile @ logs - expected + _log_shares(bottom))
        moved = max(np.abs(top - before[0]).max(), np.abs(bottom - before[1]).max())
        if moved < 1e-4:
            break
    return top, bottom


def _rates(
    data: LinkData, profile: FloatArray, top: FloatArray, bottom: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """theta and the observed weight per (top block, bottom block, type)."""
    weight = (top.T @ profile).reshape(top.shape[1], data.types, bottom.shape[1]).transpose(0, 2, 1)
    size = np.outer(top.T @ data.mu, bottom.T @ data.nu)[:, :, None]
    return np.divide(weight, size, out=np.zeros_like(weight), where=size > 0), weight


def _complete(data: LinkData, top: FloatArray, bottom: FloatArray) -> float:
    rates, weight = _rates(data, data.top_profile(bottom), top, bottom)
    links = (weight * np.log(np.maximum(rates, FLOOR))).sum()
    shares = sum((side * _log_shares(side)).sum() for side in (top, bottom))
    return float(links + shares) + data.constant


def _log_shares(memberships: FloatArray) -> FloatArray:
    shares: FloatArray = np.log(np.maximum(memberships.mean(axis=0), FLOOR))
    return shares


def _soften(scores: FloatArray) -> FloatArray:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    soft: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return soft


def _harden(scores: FloatArray) -> FloatArray:
    return _one_hot(scores.argmax(axis=1), scores.shape[1])


def _one_hot(blocks: IntArray, count: int | None = None) -> FloatArray:
    hard = np.zeros((len(blocks), int(blocks.max()) + 1 if count is None else count))
    hard[np.arange(len(blocks)), blocks] = 1.0
    return hard


def _by_size(memberships: FloatArray) -> FloatArray:
    """Largest block first, without empty ones."""
    sizes = memberships.sum(axis=0)
    order = np.argsort(-sizes, kind="stable")
    return memberships[:, order[sizes[order] > 0]]
