"""Growing the reference graph: the kernel against plain Python, which gives the same edges."""

from __future__ import annotations

import argparse
import json
import random

from entente.federation.reference import barabasi_albert
from timing import least

WORD = (1 << 64) - 1


def mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def same_edges_in_plain_python(n: int, m: int, seed: int) -> list[tuple[int, int]]:
    key, ends, edges = mix(seed), [], []
    for node in range(m, n):
        first, targets, drawn = len(edges), [], []
        for slot in range(m):
            attempt = 0
            while True:
                target = (
                    slot if node == m else ends[mix((mix((first + slot) ^ key) + attempt) & WORD) % len(ends)]
                )
                if attempt == 0:
                    drawn.append(target)
                if target not in targets:
                    break
                attempt += 1
            targets.append(target)
        for target, once in zip(targets, drawn, strict=True):
            edges.append((node, target))
            ends.extend((node, once))
    return edges


def library_generator_in_plain_python(n: int, m: int, seed: int) -> list[tuple[int, int]]:
    """The usual program, with `random`: other edges of the same kind."""
    rng, ends, edges, targets = random.Random(seed), [], [], list(range(m))
    for node in range(m, n):
        edges.extend((node, target) for target in targets)
        ends.extend(targets)
        ends.extend([node] * m)
        chosen: set[int] = set()
        while len(chosen) < m:
            chosen.add(rng.choice(ends))
        targets = list(chosen)
    return edges


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small graph")
    quick = parser.parse_args().quick
    ratios = {}
    for n, m in [(2000, 5)] if quick else [(17_649, 5), (17_649, 17)]:
        src, dst = barabasi_albert(n, m, 1)
        assert list(zip(src.tolist(), dst.tolist(), strict=True)) == same_edges_in_plain_python(n, m, 1)
        fast = least(lambda n=n, m=m: barabasi_albert(n, m, 1), 20)
        same = least(lambda n=n, m=m: same_edges_in_plain_python(n, m, 1), 3)
        usual = least(lambda n=n, m=m: library_generator_in_plain_python(n, m, 1), 3)
        print(
            f"{n} hosts, m = {m}, {len(src)} edges: kernel {fast * 1e3:.1f} ms, plain Python with the same "
            f"edges {same * 1e3:.0f} ms ({same / fast:.0f}x), with random.choice {usual * 1e3:.0f} ms "
            f"({usual / fast:.0f}x)"
        )
        ratios[f"same edges, m={m}"] = round(same / fast, 1)
        ratios[f"random.choice, m={m}"] = round(usual / fast, 1)
    print(json.dumps({"benchmark": "reference", "ratios": ratios}))


if __name__ == "__main__":
    main()
