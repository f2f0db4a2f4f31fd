"""The Weisfeiler-Lehman sketch: the kernel against dictionaries and sorting; memory at a million hosts."""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import time
from collections import Counter

import numpy as np

from entente.federation.reference import barabasi_albert
from entente.federation.sketch import sketch
from timing import least


def plain_sketch(edges: list[tuple[int, int]], iterations: int = 3) -> Counter[bytes]:
    """The paper's Algorithm 1 as written: sort the neighbours' labels, hash them."""
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        if a != b:
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    labels = {v: str(len(near).bit_length() - 1).encode() for v, near in neighbours.items()}
    histogram = Counter(labels.values())
    for _ in range(iterations):
        labels = {
            v: hashlib.blake2b(
                labels[v] + b"|" + b",".join(sorted([labels[u] for u in near])), digest_size=8
            ).digest()
            for v, near in neighbours.items()
        }
        histogram.update(labels.values())
    return histogram


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small graph, no million hosts")
    quick = parser.parse_args().quick
    n, m = (2000, 5) if quick else (17_649, 17)
    src, dst = barabasi_albert(n, m, 1)
    order = np.random.default_rng(0).permutation(len(src))
    src, dst = src[order], dst[order]
    edges = list(zip(src.tolist(), dst.tolist(), strict=True))
    counts = sorted(plain_sketch(edges).values())
    assert sorted(np.concatenate([c for _, c in sketch(src, dst).iterations]).tolist()) == counts
    fast, plain = least(lambda: sketch(src, dst), 20), least(lambda: plain_sketch(edges), 3)
    print(
        f"{n} hosts, {len(src)} edges: kernel {fast * 1e3:.1f} ms, plain Python {plain * 1e3:.0f} ms "
        f"({plain / fast:.0f}x)"
    )
    ratios: dict[str, float] = {"sketch": round(plain / fast, 1)}
    if not quick:
        start = time.process_time()
        big = barabasi_albert(1_000_000, 10, 1)
        grown = time.process_time() - start
        sketch(*big)
        drawn = time.process_time() - start - grown
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"1,000,000 hosts, {len(big[0])} edges: grown in {grown:.1f} s, sketched in {drawn:.1f} s, "
            f"peak memory {peak:.2f} GB"
        )
        ratios["peak memory over 2 GB"] = round(peak / 2, 2)
    print(json.dumps({"benchmark": "sketch", "ratios": ratios}))


if __name__ == "__main__":
    main()
