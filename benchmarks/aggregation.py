"""Aggregating 50 updates of 2 MB: one streaming pass against a loop over silos and keys."""

from __future__ import annotations

import argparse
import json
import tracemalloc
from typing import Any

import numpy as np

from entente.config import aggregation_options
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Contribution, Layout
from timing import least

Weights = dict[str, Any]


def per_key_loop(current: Weights, updates: list[Weights], entente: bool) -> Weights:
    """The usual program: for every silo, for every key, in float64; both rules record norm and cosine."""
    total = {name: np.zeros(w.shape) for name, w in current.items()}
    for update in updates:
        dot = own = base = square = 0.0
        scale = 1.0
        for name, w in update.items():
            ours, theirs = current[name].astype(np.float64), w.astype(np.float64)
            square += float(((theirs - ours) ** 2).sum())
            dot += float((ours * theirs).sum())
            own += float((theirs**2).sum())
            base += float((ours**2).sum())
        norm = square**0.5
        if entente:
            r = 0.8 * 0.5 + 0.2 * max(0.0, dot / (own**0.5 * base**0.5)) * min(5.0, norm)
            scale = r / max(1.0, norm / 5.0)
        for name, w in update.items():
            total[name] = total[name] + scale * (w.astype(np.float64) - current[name].astype(np.float64))
    return {name: (current[name] + t / len(updates)).astype(np.float32) for name, t in total.items()}


def streaming(layout: Layout, rule: str, current: Weights, updates: list[Weights]) -> Weights:
    aggregator = build(aggregation_options({"rule": rule}), layout)
    aggregator.begin(layout.flatten(current))
    lent = np.empty(layout.size, dtype=np.float32)
    for number, update in enumerate(updates):
        aggregator.add(Contribution(f"s{number:02d}", layout.flatten(update, out=lent), 0.5))
    return layout.unflatten(aggregator.finish())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 updates of 0.2 MB")
    quick = parser.parse_args().quick
    silos, hosts = (5, 1_500) if quick else (50, 15_425)
    shapes = {"enc.table": (hosts, 32), "enc.second": (32, 32), "temp.gates": (96, 64), "temp.bias": (96,)}
    layout = Layout(tuple(shapes), tuple(shapes.values()), ("ENC", "ENC", "TEMP", "TEMP"), ("enc.table",))
    rng = np.random.default_rng(0)
    current = {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    updates = [
        {
            name: w + np.float32(0.01) * rng.normal(size=w.shape).astype(np.float32)
            for name, w in current.items()
        }
        for _ in range(silos)
    ]
    size = layout.size * 4
    print(f"{silos} updates of {size / 1e6:.2f} MB")
    ratios: dict[str, float] = {}
    for rule in ("entente", "fedavg"):
        fast = streaming(layout, rule, current, updates)
        slow = per_key_loop(current, updates, rule == "entente")
        assert all(np.abs(fast[n] - slow[n]).max() <= 1.2e-7 * np.abs(slow[n]).max() for n in shapes)
        one = least(lambda rule=rule: streaming(layout, rule, current, updates), 9)
        loop = least(lambda rule=rule: per_key_loop(current, updates, rule == "entente"), 5)
        tracemalloc.start()
        streaming(layout, rule, current, updates)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"{rule}: streaming {one * 1e3:.0f} ms, per-key loop {loop * 1e3:.0f} ms ({loop / one:.1f}x); "
            f"peak {peak / size:.1f} models of float32 for {silos} updates"
        )
        ratios[rule] = round(loop / one, 1)
        ratios[f"{rule}: peak memory in models"] = round(peak / size, 1)
    print(json.dumps({"benchmark": "aggregation", "ratios": ratios}))


if __name__ == "__main__":
    main()
