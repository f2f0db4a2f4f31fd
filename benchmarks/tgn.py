"""TGN training against the plain recursion (two layers), on streams of a million events.

    python benchmarks/tgn.py [--quick]

Speed: the same batches from the middle of the stream, forward, backward and Adam step, processor seconds.
Quality: both ways trained from the same weights on a short stream; AP of its last events.
"""

from __future__ import annotations

import argparse
import copy
import json
import time

import numpy as np
import torch
from torch import nn

from entente.detectors.jbeil.memory import TgnMemory
from entente.detectors.jbeil.tgn import TGN, Asked, Stream
from entente.detectors.jbeil.training import batches, other_targets
from entente.detectors.neural import average_precision_and_auc
from entente.graphs.neighbours import Ring
from entente_lab.variants.jbeil import LabJbeilOptions
from plain_tgn import PlainTGN

CONFIG = LabJbeilOptions(layers=2, dropout=0.0, lr=0.001)
CPU = torch.device("cpu")
SIZES = {"pivoting": 1_015, "lanl": 17_649}
"""Hosts of the paper's data sets; the fewer, the more often a batch meets the same host again."""


def events(count: int, hosts: int, seed: int = 0):
    """Hosts of very different activity that mostly repeat a few targets of their own."""
    rng = np.random.default_rng(seed)
    src = (hosts * rng.random(count) ** 2).astype(np.int32)
    habit = (src * 7919 + 104729 * rng.integers(0, 4, count)) % (hosts // 4)
    dst = np.where(rng.random(count) < 0.8, habit, rng.integers(0, hosts, count))
    dst = np.where(dst == src, (dst + 1) % hosts, dst).astype(np.int32)
    moments = np.cumsum(rng.exponential(1e6, count)).astype(np.int64)
    return src, dst, moments


class Fast:
    """The library's own way, with the interface of the plain one."""

    def __init__(self, model: TGN, src, dst, moments, hosts: int) -> None:
        past = Ring.empty(hosts, CONFIG.neighbours)
        self.model = model
        self.stream = Stream(src, dst, moments, past, CONFIG.neighbours)
        self.memory = TgnMemory.empty(hosts, CONFIG.memory, CPU)

    def batch(self, batch, targets):
        stream = self.stream
        asked = Asked(
            np.tile(stream.src[batch], 2),
            np.concatenate((stream.dst[batch], targets)),
            np.tile(stream.time[batch], 2),
        )
        logits, updated = self.model(stream, self.memory, batch, asked)
        self.model.observe(stream, self.memory, batch, updated)
        return logits


def step(way, optimiser, batch, targets) -> None:
    logits = way.batch(batch, targets)
    loss = nn.functional.softplus(torch.cat((-logits[: len(batch)], logits[len(batch) :]))).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def pair(src, dst, moments, hosts: int, seed: int):
    """Both ways with the same weights."""
    torch.manual_seed(seed)
    model = TGN(CONFIG)
    other = copy.deepcopy(model)
    ends = src.astype(np.int64), dst.astype(np.int64)
    plain = PlainTGN(other, *ends, moments, hosts, CONFIG.neighbours, shared_moment=False)
    fast = Fast(model, src, dst, moments, hosts)
    return {"fast": fast, "plain": plain}


def speed(count: int, hosts: int, measured: dict[str, int]) -> dict[str, float]:
    src, dst, moments = events(count, hosts)
    ways = pair(src, dst, moments, hosts, 0)
    fast, plain = ways["fast"], ways["plain"]
    warm = batches(np.arange(count // 2 - 100_000 if count > 200_000 else 0, count // 2), 1000)
    for batch in warm:
        fast.model.observe(fast.stream, fast.memory, batch)
    plain.memory = fast.memory.rows.clone()
    plain.last = fast.memory.time.tolist()
    for node in np.flatnonzero(fast.memory.pending).tolist():
        other, gap = fast.memory.other[node].clone(), float(fast.memory.gap[node])
        plain.messages[node] = (other, gap, torch.zeros(0))
    rng, targets = np.random.default_rng(1), np.unique(dst).astype(np.int64)
    seconds = {}
    for name, way in ways.items():
        optimiser = torch.optim.Adam(way.model.parameters(), lr=CONFIG.lr)
        following = batches(
            np.arange(count // 2, count // 2 + CONFIG.batch * (measured[name] + 1)), CONFIG.batch
        )
        for number, batch in enumerate(following):
            if number == 1:
                began = time.process_time()
            step(way, optimiser, batch, other_targets(targets, dst[batch].astype(np.int64), rng))
        seconds[name] = (time.process_time() - began) / measured[name]
    return seconds


def quality(count: int, hosts: int, seed: int) -> dict[str, float]:
    """AP of the last fifth of a stream after one pass over the rest."""
    src, dst, moments = events(count, hosts, seed)
    targets = np.unique(dst).astype(np.int64)
    found = {}
    for name, way in pair(src, dst, moments, hosts, seed).items():
        rng = np.random.default_rng(seed)
        optimiser = torch.optim.Adam(way.model.parameters(), lr=CONFIG.lr)
        real, drawn = [], []
        for batch in batches(np.arange(count), CONFIG.batch):
            against = other_targets(targets, dst[batch].astype(np.int64), rng)
            if batch[0] < 0.8 * count:
                step(way, optimiser, batch, against)
                continue
            with torch.no_grad():
                logits = way.batch(batch, against).numpy()
            real.append(logits[: len(batch)])
            drawn.append(logits[len(batch) :])
        logits = np.concatenate(real + drawn)
        found[name] = 100 * average_precision_and_auc(np.arange(len(logits)) < len(logits) // 2, logits)[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    count = 60_000 if quick else 1_000_000
    measured = {"fast": 5, "plain": 2} if quick else {"fast": 40, "plain": 8}
    ratios = {}
    for name, hosts in SIZES.items():
        seconds = speed(count, hosts, measured)
        ratios[name] = round(seconds["plain"] / seconds["fast"], 1)
        rates = ", ".join(f"{way} {1e3 * value:.0f} ms per batch" for way, value in seconds.items())
        print(f"{name}: {hosts:,} hosts, {count:,} events: {rates}, {ratios[name]} x")
    runs = [quality(4_000 if quick else 16_000, 300, seed) for seed in range(1 if quick else 2)]
    mean = {name: round(float(np.mean([run[name] for run in runs])), 2) for name in ("fast", "plain")}
    print(f"AP after one pass: {mean['fast']}, plain {mean['plain']}")
    print(json.dumps({"benchmark": "tgn", "ratios": ratios, "ap": mean, "events": count}))


if __name__ == "__main__":
    main()
