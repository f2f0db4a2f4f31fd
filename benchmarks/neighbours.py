"""The batched neighbour sampler against arrays per node and a loop: the same answers, how much faster.

python benchmarks/neighbours.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from entente.graphs.neighbours import RecentNeighbours, Ring
from plain_tgn import PlainSampler

K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    events = 100_000 if parser.parse_args().quick else 1_000_000
    hosts, questions = events // 60, 600 * (K + 1)
    rng = np.random.default_rng(0)
    src = (hosts * rng.random(events) ** 2).astype(np.int32)
    dst = ((src + 1 + (hosts - 1) * rng.random(events) ** 3) % hosts).astype(np.int32)
    moments = np.sort(rng.integers(0, 1000 * events, events))

    began = time.process_time()
    fast = RecentNeighbours(src, dst, moments, Ring.empty(hosts, K), K)
    order = fast.before(moments)  # of every event, once
    indexed = time.process_time()
    plain = PlainSampler(src, dst, moments, hosts)
    ready = time.process_time()
    seconds = {"fast": float("inf"), "plain": float("inf")}
    for repeat in range(7):
        # What a batch of 200 events asks with two layers: three ends at their moments, then their neighbours.
        batch = rng.integers(events // 2, events - 200) + np.arange(200)
        ends = np.concatenate((src[batch], dst[batch], rng.integers(0, hosts, 200))).astype(np.int64)
        asking = np.tile(batch, 3)
        near = fast.recent(ends, order[asking]).node.ravel()
        nodes, asking = np.concatenate((ends, near)), np.concatenate((asking, np.repeat(asking, K)))
        before, when = order[asking], moments[asking]
        first = time.process_time()
        found = fast.recent(nodes, before)
        second = time.process_time()
        node, at, _, known = plain.recent(nodes, when, K)
        third = time.process_time()
        seconds["fast"] = min(seconds["fast"], second - first)
        seconds["plain"] = min(seconds["plain"], third - second)
        assert np.array_equal(found.node, node)
        assert np.array_equal(found.time, at)
        assert np.array_equal(found.known, known), repeat
    ratios = {
        "recent": seconds["plain"] / seconds["fast"],
        "build": (ready - indexed) / (indexed - began),
    }
    print(f"{events:,} events, {hosts:,} hosts, {questions:,} questions of {K} neighbours; answers identical")
    for name, value in seconds.items():
        print(f"{name:>6}: {1e3 * value:8.2f} ms for all questions")
    print(json.dumps({"benchmark": "neighbours", "ratios": {k: round(v, 1) for k, v in ratios.items()}}))


if __name__ == "__main__":
    main()
