"""TGN over a stream of events: memory, attention over recent neighbours, edge decoder, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from entente.detectors.jbeil.layers import EdgeDecoder, NeighbourAttention, Neighbourhood, TimeEncoding
from entente.detectors.jbeil.memory import MemoryUpdater, TgnMemory
from entente.detectors.jbeil.options import JbeilSettings
from entente.graphs.neighbours import Recent, RecentNeighbours, Ring
from entente.graphs.temporal import Float32, Int32, Int64
from entente.logs.schema import MICROSECONDS


class Stream:
    """Events in order of time, and the neighbours they make; `past` is what went before them.

    `weight` is what the events weigh and `roles` the role of every host, -1 for none, where that is known.
    """

    def __init__(
        self,
        src: Int32,
        dst: Int32,
        time: Int64,
        past: Ring,
        k: int,
        weight: Float32 | None = None,
        roles: Int64 | None = None,
    ) -> None:
        self.src = src.astype(np.int64)
        self.dst = dst.astype(np.int64)
        self.time = time
        self.hosts = len(past.node)
        self.roles = roles
        self.features = None if weight is None else np.log2(1.0 + weight).astype(np.float32)
        self.neighbours = RecentNeighbours(src.astype(np.int32), dst.astype(np.int32), time, past, k)

    def __len__(self) -> int:
        return len(self.src)

    def whole_moments(self, size: int, first: int, last: int) -> Iterator[Int64]:
        """Batches of at least `size` events that never part events of the same moment."""
        low = first
        while low < last:
            high = min(low + size, last)
            high = min(int(np.searchsorted(self.time, self.time[high - 1], side="right")), last)
            yield np.arange(low, high)
            low = high


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Pairs whose link is asked for, each at its moment."""

    src: Int64
    dst: Int64
    time: Int64


class TGN(nn.Module):
    def __init__(self, settings: JbeilSettings, roles: int = 0, features: int = 0) -> None:
        super().__init__()
        self.width = settings.memory
        self.time = TimeEncoding(settings.time)
        self.memory = MemoryUpdater(settings.memory, self.time, features)
        self.roles = nn.Embedding(roles, settings.memory) if roles else None
        self.attention = nn.ModuleList(
            NeighbourAttention(
                settings.memory if layer == 0 else settings.embedding,
                settings.time,
                settings.embedding,
                settings.heads,
                settings.dropout,
            )
            for layer in range(settings.layers)
        )
        self.decoder = EdgeDecoder(settings.embedding)

    def forward(
        self, stream: Stream, memory: TgnMemory, batch: Int64, asked: Asked
    ) -> tuple[Tensor, tuple[Int64, Tensor]]:
        """Logits of the pairs asked for, and the memories that were brought up to date for them.

        A pair is seen from the memory before the batch and from neighbours strictly before its own moment.
        The memories returned cover the ends of the batch's events, as `observe` wants them.
        """
        questions, place = _unique(asked)
        hosts, rows, embedding = self._embed(stream, memory, batch, questions)
        ends = torch.from_numpy(place).to(embedding.device)
        logits: Tensor = self.decoder(embedding, ends[: len(asked.src)], ends[len(asked.src) :])
        return logits, (hosts, rows.detach())

    @torch.no_grad()
    def observe(
        self, stream: Stream, memory: TgnMemory, batch: Int64, updated: tuple[Int64, Tensor] | None = None
    ) -> None:
        """Let the memory receive the stream's events `batch`, after which no earlier one may be asked."""
        if updated is None:
            hosts = np.union1d(stream.src[batch], stream.dst[batch])
            updated = hosts, self.memory(memory, hosts)
        features = None if stream.features is None else stream.features[batch]
        memory.receive(stream.src[batch], stream.dst[batch], stream.time[batch], *updated, features)

    def _embed(
        self, stream: Stream, memory: TgnMemory, batch: Int64, asked: tuple[Int64, Int64]
    ) -> tuple[Int64, Tensor, Tensor]:
        """Hosts whose memory was needed, their memories, and the embedding of each (node, moment).

        Only the last layer hangs on the moment of a question. Below it, every host is embedded once, at
        the batch's first moment.
        """
        nodes, time = asked
        found = [stream.neighbours.recent(nodes, stream.neighbours.before(time))]
        moments = [time]
        wanted = [nodes]
        mark = np.zeros(stream.hosts, dtype=np.bool_)
        mark[stream.src[batch]] = mark[stream.dst[batch]] = True
        mark[nodes] = True
        mark[found[0].node[found[0].known]] = True
        start = stream.time[batch[0]] if len(batch) else time.min(initial=np.iinfo(np.int64).max)
        for _ in range(len(self.attention) - 1):
            hosts = np.flatnonzero(mark)
            moment = np.full(len(hosts), start)
            near = stream.neighbours.recent(hosts, np.full(len(hosts), stream.neighbours.before(start)))
            found.append(near)
            moments.append(moment)
            wanted.append(hosts)
            mark[near.node[near.known]] = True
        hosts = np.flatnonzero(mark)
        rows: Tensor = self.memory(memory, hosts)
        table, below = self._with_roles(rows, stream, hosts), hosts
        for layer in self.attention:
            near, moment, above = found.pop(), moments.pop(), wanted.pop()
            table = layer(table, self._neighbourhood(above, moment, near, below))
            below = above
        return hosts, rows, table

    def _with_roles(self, rows: Tensor, stream: Stream, hosts: Int64) -> Tensor:
        """The lowest layer's input: memories, and what is known of the hosts besides."""
        if self.roles is None or stream.roles is None:
            return rows
        role = torch.from_numpy(stream.roles[hosts]).to(rows.device)
        known = (role >= 0).unsqueeze(1)
        found: Tensor = rows + self.roles(role.clamp(min=0)) * known
        return found

    def _neighbourhood(self, nodes: Int64, moment: Int64, near: Recent, below: Int64) -> Neighbourhood:
        device = self.time.frequencies.device
        lookup = np.zeros(int(below[-1]) + 1 if len(below) else 1, dtype=np.int64)
        lookup[below] = np.arange(len(below))
        ago = np.where(near.known, np.maximum(moment[:, None] - near.time, 0), 0) / MICROSECONDS
        edges = self.time(torch.from_numpy(ago.astype(np.float32)).to(device))
        rows = np.where(near.known, lookup[np.minimum(near.node, len(lookup) - 1)], 0)
        return Neighbourhood(
            torch.from_numpy(lookup[nodes]).to(device),
            torch.from_numpy(rows).to(device),
            torch.from_numpy(near.known).to(device),
            edges,
        )


def _unique(asked: Asked) -> tuple[tuple[Int64, Int64], Int64]:
    """Every (node, moment) once, and where each source, then each target, is found among them."""
    moments, at = np.unique(asked.time, return_inverse=True)
    keys = np.concatenate((asked.src, asked.dst)) * max(len(moments), 1) + np.concatenate((at, at))
    unique, place = np.unique(keys, return_inverse=True)
    nodes, at = np.divmod(unique, max(len(moments), 1))
    return (nodes, moments[at]), place
