"""Link prediction with TGN: one epoch of training, and the logits of events against sampled targets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from entente.detectors.jbeil.memory import TgnMemory
from entente.detectors.jbeil.tgn import TGN, Asked, Stream
from entente.errors import DetectorError
from entente.graphs.temporal import Float32, Int64

Penalty = Callable[[], Tensor]


def batches(events: Int64, size: int) -> list[Int64]:
    """Consecutive runs of `size` events."""
    return [events[low : low + size] for low in range(0, len(events), size)]


def other_targets(targets: Int64, dst: Int64, rng: np.random.Generator) -> Int64:
    """For each event a target out of `targets` (sorted, each once) that is not its own."""
    own = np.minimum(np.searchsorted(targets, dst), len(targets) - 1)
    among = targets[own] == dst
    if len(targets) == 1:
        return np.full(len(dst), targets[0])
    drawn = rng.integers(0, len(targets) - among)
    others: Int64 = targets[drawn + (among & (drawn >= own))]
    return others


def train_epoch(
    model: TGN,
    optimiser: torch.optim.Optimizer,
    stream: Stream,
    memory: TgnMemory,
    size: int,
    targets: Int64,
    rng: np.random.Generator,
    penalty: Penalty | None = None,
) -> float:
    """One pass over the stream, one step per batch, each event against one target out of `targets`.

    Returns the mean loss. The memory is left as the pass leaves it. Dropout draws from torch's generator.
    """
    model.train()
    total = 0.0
    for batch in batches(np.arange(len(stream)), size):
        drawn = other_targets(targets, stream.dst[batch], rng)
        logits, updated = model(stream, memory, batch, _against(stream, batch, drawn))
        model.observe(stream, memory, batch, updated)
        loss = nn.functional.softplus(torch.cat((-logits[: len(batch)], logits[len(batch) :]))).mean()
        optimiser.zero_grad()
        whole = loss if penalty is None else loss + penalty()
        whole.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += float(loss.detach()) * len(batch)
    if not np.isfinite(total):
        raise DetectorError(
            "training diverged: the loss is not a finite number",
            remedy="Lower detector.lr.",
        )
    return total / max(len(stream), 1)


def link_logits(
    model: TGN, stream: Stream, memory: TgnMemory, parts: list[Int64], targets: Int64
) -> tuple[Float32, Float32]:
    """Logits of the events in `parts`, one part after the other, and of the same sources with `targets`."""
    model.eval()
    real, drawn, done = [], [], 0
    with torch.no_grad():
        for batch in parts:
            asked = _against(stream, batch, targets[done : done + len(batch)])
            logits, updated = model(stream, memory, batch, asked)
            model.observe(stream, memory, batch, updated)
            real.append(logits[: len(batch)].cpu().numpy())
            drawn.append(logits[len(batch) :].cpu().numpy())
            done += len(batch)
    nothing = [np.zeros(0, dtype=np.float32)]
    return np.concatenate(real or nothing), np.concatenate(drawn or nothing)


def _against(stream: Stream, batch: Int64, targets: Int64) -> Asked:
    src, time = stream.src[batch], stream.time[batch]
    return Asked(
        np.concatenate((src, src)),
        np.concatenate((stream.dst[batch], targets)),
        np.concatenate((time, time)),
    )
