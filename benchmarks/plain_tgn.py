"""TGN the plain way, as the oracle for the fast one: lists of neighbours, recursion, one map per neighbour.

It computes with the parameters of `detectors.jbeil.tgn.TGN`, so that both can be trained and compared.
With `shared_moment` every layer but the last is taken at the batch's first moment, as the fast one does;
without it the recursion keeps each question's own moment, as published implementations do.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from entente.detectors.jbeil.tgn import TGN


class PlainSampler:
    """Sorted arrays per node; one search, three slices and three copies per question, as usually written."""

    def __init__(self, src, dst, time, hosts: int) -> None:
        lists = [[] for _ in range(hosts)]
        for event, (a, b, t) in enumerate(zip(src.tolist(), dst.tolist(), time.tolist(), strict=True)):
            lists[a].append((b, t, event))
            lists[b].append((a, t, event))
        columns = [np.array(entries, dtype=np.int64).reshape(-1, 3) for entries in lists]
        self.nodes, self.times, self.events = ([column[:, i].copy() for column in columns] for i in range(3))

    def find_before(self, node: int, moment: int):
        end = np.searchsorted(self.times[node], moment)
        return self.nodes[node][:end], self.times[node][:end], self.events[node][:end]

    def recent(self, nodes, moments, k: int):
        """Neighbours, moments and event numbers strictly before each moment, the most recent first."""
        node, time, event = (np.zeros((len(nodes), k), dtype=np.int64) for _ in range(3))
        known = np.zeros((len(nodes), k), dtype=bool)
        for row, (own, moment) in enumerate(zip(nodes, moments, strict=True)):
            others, times, events = self.find_before(own, moment)
            count = min(k, len(others))
            if count:
                node[row, :count] = others[-count:][::-1]
                time[row, :count] = times[-count:][::-1]
                event[row, :count] = events[-count:][::-1]
                known[row, :count] = True
        return node, time, event, known


class PlainTGN:
    """Memory and embeddings of one pass over a stream, with the parameters of `model`."""

    def __init__(self, model: TGN, src, dst, time, hosts: int, k: int, shared_moment: bool) -> None:
        self.model, self.k, self.shared = model, k, shared_moment
        self.src, self.dst, self.time = src, dst, time
        self.sampler = PlainSampler(src, dst, time, hosts)
        self.memory = torch.zeros(hosts, model.width)
        self.last = [-1] * hosts
        self.messages: dict[int, tuple[Tensor, float]] = {}

    def updated(self) -> Tensor:
        """The memories of all hosts, those with a message brought up to date."""
        if not self.messages:
            return self.memory.clone()
        nodes = sorted(self.messages)
        parts = [
            torch.cat(
                (self.memory[node], other, self.model.time(torch.tensor([gap], dtype=torch.float32))[0])
            )
            for node, (other, gap) in ((node, self.messages[node]) for node in nodes)
        ]
        at = torch.tensor(nodes)
        return self.memory.index_copy(0, at, self.model.memory.cell(torch.stack(parts), self.memory[at]))

    def embed(self, memory: Tensor, nodes, moments, layer: int, start: int) -> Tensor:
        if layer == 0:
            return memory[torch.from_numpy(nodes)]
        below = np.full(len(nodes), start) if self.shared else moments
        own = self.embed(memory, nodes, below, layer - 1, start)
        node, time, _, known = self.sampler.recent(nodes, moments, self.k)
        near = self.embed(memory, node.ravel(), np.repeat(below, self.k), layer - 1, start)
        ago = np.where(known, moments[:, None] - time, 0) / 1e6
        edges = self.model.time(torch.from_numpy(ago.astype(np.float32)))
        seen = torch.cat((near.view(len(nodes), self.k, -1), edges), dim=2)
        return self.attend(self.model.attention[layer - 1], own, seen, torch.from_numpy(known))

    @staticmethod
    def attend(layer, own: Tensor, seen: Tensor, known: Tensor) -> Tensor:
        query = layer.query(torch.cat((own, torch.ones(len(own), layer._time)), dim=1))
        query = query.view(len(own), layer.heads, 1, layer.head)
        key = torch.einsum("nki,hdi->nhkd", seen, layer.key)
        value = torch.einsum("nki,hid->nhkd", seen, layer.value)
        logits = (query * key).sum(dim=3) / math.sqrt(layer.head)
        logits = logits.masked_fill(~known.unsqueeze(1), -1e10)
        attention = layer.dropout(torch.softmax(logits, dim=2)).unsqueeze(3)
        context = (attention * value).sum(dim=2).flatten(1) + layer.value_bias
        context = context * known[:, :1]
        return layer.out(torch.relu(layer.merge(torch.cat((context, own), dim=1))))

    def batch(self, events, targets) -> Tensor:
        """Logits of the events and of their sources with `targets`; then the events become messages."""
        src, dst, time = self.src[events], self.dst[events], self.time[events]
        memory, depth, start = self.updated(), len(self.model.attention), int(time[0])
        ends = [self.embed(memory, nodes, time, depth, start) for nodes in (src, dst, targets)]
        table, count = torch.cat(ends), len(events)
        first = torch.arange(count).repeat(2)
        logits = self.model.decoder(table, first, torch.arange(count, 3 * count))
        self.receive(events, memory.detach())
        return logits

    def receive(self, events, memory: Tensor) -> None:
        for node in {*self.src[events].tolist(), *self.dst[events].tolist()}:
            self.memory[node] = memory[node]
            self.messages.pop(node, None)
        before = list(self.last)
        for event in events.tolist():
            a, b, moment = int(self.src[event]), int(self.dst[event]), int(self.time[event])
            for own, other in ((a, b), (b, a)):
                gap = 0.0 if before[own] < 0 else (moment - before[own]) / 1e6
                self.messages[own] = (memory[other], gap)
                self.last[own] = moment
