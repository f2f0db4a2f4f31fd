"""The block model against planted blocks, a plain likelihood and published clusters."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import poisson
from sklearn.metrics import adjusted_rand_score

from entente.errors import GraphError, UsageError
from entente.partition import block_model
from entente.partition.bipartite import Bipartite, build_bipartite
from entente.partition.block_model import LinkData, fit_block_model, log_likelihood


def planted(
    seed: int, blocks: int = 3, nodes: int = 90, types: int = 4
) -> tuple[Bipartite, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z, w = rng.integers(0, blocks, nodes), rng.integers(0, blocks, nodes + 20)
    rate = 0.02 + 0.6 * (rng.random((blocks, blocks, types)) < 0.3)
    rate[np.arange(blocks), np.arange(blocks), 0] = 1.0
    activity = rng.uniform(0.5, 2.0, nodes)[:, None, None] * rng.uniform(0.5, 2.0, nodes + 20)[None, :, None]
    weight = rng.poisson(activity * rate[z[:, None], w[None, :]])
    top, bottom, kind = np.nonzero(weight)
    graph = build_bipartite(
        [f"t{i:03d}" for i in top],
        [f"b{j:03d}" for j in bottom],
        [f"k{k}" for k in kind],
        weight[top, bottom, kind].tolist(),
    )
    return graph, z[[int(name[1:]) for name in graph.tops]], w[[int(name[1:]) for name in graph.bottoms]]


def plain_log_likelihood(graph: Bipartite, z: np.ndarray, w: np.ndarray) -> float:
    """Over every cell of the dense array, by scipy's Poisson; -log(x!) taken out again."""
    x = np.zeros((len(graph.tops), len(graph.bottoms), len(graph.types)))
    x[graph.top, graph.bottom, graph.type] = graph.weight
    mu, nu = x.sum(axis=(1, 2)), x.sum(axis=(0, 2)) / x.sum()
    total = 0.0
    for g in np.unique(z):
        for h in np.unique(w):
            cell = x[np.ix_(z == g, w == h)]
            size = mu[z == g].sum() * nu[w == h].sum()
            mean = np.outer(mu[z == g], nu[w == h])[:, :, None] * (cell.sum(axis=(0, 1)) / size)
            total += np.where(
                (mean == 0) & (cell == 0), 0.0, poisson.logpmf(cell, np.maximum(mean, 1e-300))
            ).sum()
    total += np.vectorize(lambda n: float(np.log(np.arange(1, int(n) + 1)).sum()))(graph.weight).sum()
    for side in (z, w):
        _, counts = np.unique(side, return_counts=True)
        total += float((counts * np.log(counts / counts.sum())).sum())
    return float(total)


@pytest.mark.parametrize("seed", range(3))
def test_log_likelihood_agrees_with_every_cell_summed_up(seed: int) -> None:
    graph, _, _ = planted(seed, nodes=20)
    rng = np.random.default_rng(seed)
    z, w = rng.integers(0, 3, len(graph.tops)), rng.integers(0, 2, len(graph.bottoms))
    assert log_likelihood(graph, z, w) == pytest.approx(plain_log_likelihood(graph, z, w), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_planted_blocks_are_found_on_both_sides(seed: int) -> None:
    graph, z, w = planted(seed)
    model = fit_block_model(graph, 3, 3, seed=seed)
    assert adjusted_rand_score(model.top_block, z) > 0.9
    assert adjusted_rand_score(model.bottom_block, w) > 0.9
    assert model.log_likelihood >= log_likelihood(graph, z, w)
    assert model.log_likelihood == pytest.approx(log_likelihood(graph, model.top_block, model.bottom_block))
    assert model.log_likelihood == max(model.starts)


def test_icl_chooses_the_planted_sizes() -> None:
    graph, _, _ = planted(1)
    assert fit_block_model(graph, starts=6).sizes == (3, 3)
    assert fit_block_model(graph, None, 3, starts=6).sizes == (3, 3)
    assert fit_block_model(graph, 3, None, starts=6).sizes == (3, 3)


def test_the_sparse_profiles_are_the_dense_ones() -> None:
    graph, _, _ = planted(0, nodes=15)
    dense = np.zeros((len(graph.tops), len(graph.bottoms), len(graph.types)))
    dense[graph.top, graph.bottom, graph.type] = graph.weight
    data, rng = LinkData.of(graph), np.random.default_rng(0)
    bottom = rng.dirichlet(np.ones(4), len(graph.bottoms))
    top = rng.dirichlet(np.ones(2), len(graph.tops))
    assert np.allclose(
        data.top_profile(bottom), np.einsum("ijl,jh->ilh", dense, bottom).reshape(len(dense), -1)
    )
    assert np.allclose(
        data.bottom_profile(top), np.einsum("ijl,ig->jlg", dense, top).reshape(len(graph.bottoms), -1)
    )


def test_classification_steps_never_lose_likelihood() -> None:
    graph, _, _ = planted(2)
    data, rng = LinkData.of(graph), np.random.default_rng(0)
    top = np.eye(3)[rng.integers(0, 3, len(graph.tops))]
    bottom = np.eye(3)[rng.integers(0, 3, len(graph.bottoms))]
    reached = [block_model._complete(data, top, bottom)]
    for _ in range(15):
        top, bottom = block_model._climb(data, top, bottom, 1, hard=True)
        reached.append(block_model._complete(data, top, bottom))
    assert (np.diff(reached) >= -1e-6).all()
    assert reached[-1] > reached[0]


def test_blocks_are_numbered_by_size_and_empty_ones_are_dropped_and_counted() -> None:
    graph, _, _ = planted(0, nodes=30)
    model = fit_block_model(graph.presence(), 12, 12, starts=2)
    for side, blocks in enumerate((model.top_block, model.bottom_block)):
        sizes = np.bincount(blocks)
        assert (sizes > 0).all()
        assert (np.diff(sizes) <= 0).all()
        assert len(sizes) == model.sizes[side]
        assert model.empty[side] == 12 - len(sizes)


def test_same_seed_same_blocks() -> None:
    graph, _, _ = planted(0, nodes=40)
    one, other = (fit_block_model(graph, 3, 3, seed=5, starts=4) for _ in range(2))
    assert np.array_equal(one.top_block, other.top_block)
    assert one.starts == other.starts


def test_impossible_sizes_and_empty_graphs_are_refused() -> None:
    graph, _, _ = planted(0, nodes=10)
    with pytest.raises(UsageError, match="cannot form 99 blocks"):
        fit_block_model(graph, 99, 2)
    with pytest.raises(GraphError, match="no link"):
        build_bipartite([], [], [], [])


def test_rows_of_the_same_link_are_added_up() -> None:
    graph = build_bipartite(["u", "u", "v"], ["h", "h", "h"], ["x", "x", "y"], [1, 2, 5])
    assert (graph.tops, graph.bottoms, graph.types) == (("u", "v"), ("h",), ("x", "y"))
    assert graph.weight.tolist() == [3, 5]
    assert graph.presence().weight.tolist() == [1, 1]


@pytest.mark.data
def test_vast_clusters_are_at_least_as_likely_as_the_published_ones(shared_data: Path) -> None:
    with (shared_data / "block_model" / "vast.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = [[row[name] for row in rows] for name in ("top", "bottom", "type")]
    graph = build_bipartite(columns[0], columns[1], columns[2], [float(row["count"]) for row in rows])
    graph = graph.presence()
    published = json.loads((shared_data / "block_model" / "vast_published_blocks.json").read_text())
    z, w = (
        np.array([next(k for k, block in enumerate(published[side]) if name in block) for name in names])
        for side, names in (("top", graph.tops), ("bottom", graph.bottoms))
    )
    theirs = log_likelihood(graph, z, w)
    model = fit_block_model(graph, 3, 3)
    assert model.log_likelihood >= theirs
    assert adjusted_rand_score(model.top_block, z) >= 0.9 or model.log_likelihood > theirs
    # The published clusters lie beside an optimum of ours: climbing from them hardly moves anything.
    data = LinkData.of(graph)
    top, bottom = block_model._climb(data, np.eye(3)[z], np.eye(3)[w], 50, hard=True)
    assert adjusted_rand_score(top.argmax(axis=1), z) >= 0.9
    assert adjusted_rand_score(bottom.argmax(axis=1), w) >= 0.9
    assert block_model._complete(data, top, bottom) >= theirs


@pytest.mark.data
def test_the_rates_of_the_published_clusters_are_the_published_rates(shared_data: Path) -> None:
    """Presence and activity are not our guess: with the published blocks they give the published rates."""
    with (shared_data / "block_model" / "vast.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = [[row[name] for row in rows] for name in ("top", "bottom", "type")]
    graph = build_bipartite(columns[0], columns[1], columns[2], [1.0] * len(rows))
    published = json.loads((shared_data / "block_model" / "vast_published_blocks.json").read_text())
    share = {}
    for side, names in (("top", graph.tops), ("bottom", graph.bottoms)):
        share[side] = np.zeros((len(names), 3))
        for k, block in enumerate(published[side]):
            share[side][[names.index(name) for name in block], k] = 1.0
    data = LinkData.of(graph)
    rates, _ = block_model._rates(data, data.top_profile(share["bottom"]), share["top"], share["bottom"])
    for kind, expected in published["thetas"].items():
        ours = rates[:, :, graph.types.index(kind)]
        # Theirs are of soft memberships, 0.97 to 1 certain.
        assert np.allclose(ours, expected, rtol=0.15, atol=0.005), kind
