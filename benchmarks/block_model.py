"""The block model at LANL's size, and its sparse E step against the same step on a dense array.

python benchmarks/block_model.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from sklearn.metrics import adjusted_rand_score

from entente.partition.bipartite import Bipartite
from entente.partition.block_model import LinkData, fit_block_model


def planted(
    users: int, hosts: int, types: int, links: int, blocks: int, seed: int
) -> tuple[Bipartite, np.ndarray]:
    """Links drawn from blocks of nodes with heavy-tailed activity, and the hosts' blocks."""
    rng = np.random.default_rng(seed)
    z, w = rng.integers(0, blocks, users), rng.integers(0, blocks, hosts)
    theta = rng.gamma(0.3, 1.0, (blocks, blocks)) + 4 * np.eye(blocks)
    mix = rng.dirichlet(np.full(types, 0.2), (blocks, blocks))
    mu, nu = rng.pareto(1.5, users) + 0.2, rng.pareto(1.1, hosts) + 0.1
    cell = rng.choice(blocks**2, links, p=(theta / theta.sum()).ravel())
    top, bottom, kind = np.empty((3, links), dtype=np.int64)
    for number in range(blocks**2):
        chosen = np.flatnonzero(cell == number)
        g, h = divmod(number, blocks)
        for ends, side, activity, block in ((top, z, mu, g), (bottom, w, nu, h)):
            members = np.flatnonzero(side == block)
            ends[chosen] = rng.choice(members, len(chosen), p=activity[members] / activity[members].sum())
        kind[chosen] = rng.choice(types, len(chosen), p=mix[g, h])
    key, counts = np.unique((top * hosts + bottom) * types + kind, return_counts=True)
    ends, kind = np.divmod(key, types)
    top, bottom = np.divmod(ends, hosts)
    used_top, top = np.unique(top, return_inverse=True)
    used_bottom, bottom = np.unique(bottom, return_inverse=True)
    names = [tuple(map(str, range(n))) for n in (len(used_top), len(used_bottom), types)]
    graph = Bipartite(names[0], names[1], names[2], top, bottom, kind, counts.astype(float))
    return graph.presence(), w[used_bottom]


def dense_profile(dense: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.einsum("ijl,jh->ilh", dense, bottom, optimize=True).reshape(len(dense), -1)


def best_of(run: object, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()  # type: ignore[operator]
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick

    small, _ = planted(600, 800, 20, 20_000, 5, 0)
    dense = np.zeros((len(small.tops), len(small.bottoms), len(small.types)))
    dense[small.top, small.bottom, small.type] = small.weight
    data = LinkData.of(small)
    bottom = np.random.default_rng(0).dirichlet(np.ones(5), len(small.bottoms))
    assert np.allclose(data.top_profile(bottom), dense_profile(dense, bottom))
    sparse_time = best_of(lambda: data.top_profile(bottom))
    dense_time = best_of(lambda: dense_profile(dense, bottom))

    size = (1_100, 1_500, 40, 100_000, 5, 1) if quick else (11_000, 15_000, 40, 3_000_000, 5, 1)
    graph, truth = planted(*size)
    begin = time.perf_counter()
    model = fit_block_model(graph, 5, 5, starts=4)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{len(graph.tops):,} users x {len(graph.bottoms):,} hosts x {len(graph.types)} types,", end=" ")
    print(f"{len(graph.weight):,} links: 4 starts of 5 x 5 blocks in {seconds:.0f} s, peak {peak:.2f} GB")
    agreement = adjusted_rand_score(truth, model.bottom_block)
    print(f"adjusted Rand index of the planted host blocks: {agreement:.3f}")
    ratios = {
        "dense_over_sparse_e_step": round(dense_time / sparse_time, 2),
        "peak_of_4_GB": round(peak / 4, 3),
        "rand_index_of_planted_hosts": round(float(agreement), 3),
    }
    print(json.dumps({"benchmark": "block_model", "ratios": ratios}))


if __name__ == "__main__":
    main()
