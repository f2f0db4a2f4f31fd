"""TGN's time encoding and its attention over recent neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

TURN = 2.0 * math.pi
SLOWEST = 9
"""The slowest of the time encoding's frequencies is 10 to the minus this, per second."""


class TimeEncoding(nn.Module):
    """cos(w dt) for frequencies w from 1 to 1e-9 per second.

    The frequencies are fixed: their gradient carries the raw number of seconds, so that a trained one
    leaves its scale within a few steps of Adam; the layers that read the encoding are trained.
    """

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        exponents = torch.linspace(0.0, SLOWEST, width, dtype=torch.float64)
        turns = (10.0**-exponents / TURN).to(torch.float32)
        self.register_buffer("frequencies", turns, persistent=False)

    def forward(self, seconds: Tensor) -> Tensor:
        turns = seconds.unsqueeze(-1) * self.frequencies
        # Whole turns are taken off first: cos is several times slower, and no better, far from zero.
        turns -= turns.round()
        return torch.cos_(turns.mul_(TURN))


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """The neighbours of some nodes: rows of the table below, and how long ago."""

    own: Tensor  # [nodes]: the node's own row of the table
    rows: Tensor  # [nodes, k]: its neighbours' rows
    known: Tensor  # [nodes, k]: whether there is such a neighbour
    edges: Tensor  # [nodes, k, time]: time encoding


class NeighbourAttention(nn.Module):
    """One layer: every node attends to its recent neighbours, then is merged with its own row.

    Keys and values are linear in the neighbour, so the maps are applied to the query and to the attended
    sum instead: the same result for one product per node where a plain layer needs one per neighbour.
    """

    def __init__(self, inputs: int, time: int, outputs: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.head = -(-outputs // heads)
        width = self.heads * self.head
        self.query = nn.Linear(inputs + time, width)
        self.key = nn.Parameter(torch.empty(heads, self.head, inputs + time))
        self.value = nn.Parameter(torch.empty(heads, inputs + time, self.head))
        self.value_bias = nn.Parameter(torch.zeros(width))
        self.merge = nn.Linear(width + inputs, outputs)
        self.out = nn.Linear(outputs, outputs)
        self.dropout = nn.Dropout(dropout)
        bound = math.sqrt(6.0 / (inputs + time + width))
        nn.init.uniform_(self.key, -bound, bound)
        nn.init.uniform_(self.value, -bound, bound)
        self._time = time

    def forward(self, table: Tensor, near: Neighbourhood) -> Tensor:
        own = nn.functional.embedding(near.own, table)
        now = own.new_ones(1, self._time).expand(len(own), -1)  # the encoding of no time at all
        query = self.query(torch.cat((own, now), dim=1)).view(-1, self.heads, self.head)
        asked = torch.einsum("nhd,hdi->nhi", query, self.key)
        # Neighbours and edges apart: edges are given, and need no gradient.
        near_rows, split = nn.functional.embedding(near.rows, table), table.shape[1]
        logits = torch.bmm(asked[:, :, :split], near_rows.transpose(1, 2))
        logits = logits + torch.bmm(asked[:, :, split:], near.edges.transpose(1, 2))
        logits = (logits / math.sqrt(self.head)).masked_fill(~near.known.unsqueeze(1), -1e10)
        attention = self.dropout(torch.softmax(logits, dim=2))
        attended = torch.cat((torch.bmm(attention, near_rows), torch.bmm(attention, near.edges)), dim=2)
        context = torch.einsum("nhi,hid->nhd", attended, self.value).flatten(1)
        context = (context + self.value_bias) * near.known[:, :1]  # the first is known, or none is
        merged = torch.relu(self.merge(torch.cat((context, own), dim=1)))
        result: Tensor = self.out(merged)
        return result


class EdgeDecoder(nn.Module):
    """One hidden layer over both ends of an edge; each embedding is mapped once, however often it is used."""

    def __init__(self, embedding: int) -> None:
        super().__init__()
        self.source = nn.Linear(embedding, embedding)
        self.target = nn.Linear(embedding, embedding, bias=False)
        self.out = nn.Linear(embedding, 1)

    def forward(self, embeddings: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        left = nn.functional.embedding(src, self.source(embeddings))
        right = nn.functional.embedding(dst, self.target(embeddings))
        logits: Tensor = self.out(torch.relu(left + right))
        return logits[:, 0]
