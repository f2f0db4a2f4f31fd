"""Graph layers and decoders, for all windows at once.

A graph layer maps the table of senders to new rows for receivers and idle hosts (see `euler_layout`). On
identity features X = I the product XW is a lookup in W, so a first layer's dense map is given as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from entente.detectors.euler.layout import WindowLayout, indices
from entente.detectors.euler.visits import Visits, visits_of
from entente.graphs.temporal import NOBODY, Int64


class _Propagate(torch.autograd.Function):
    """A fixed sparse matrix times a dense one. Row by row on one thread: the same bits every time."""

    @staticmethod
    def forward(ctx: Any, matrix: csr_matrix, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        return _times(matrix, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        # The transpose is taken as it lies, by columns: gradients are read once, in order, however many
        # windows there are, and what is written to at random stays small enough for the cache.
        return None, _times(ctx.matrix.T, gradients[0])


def _times(matrix: csr_matrix, x: Tensor) -> Tensor:
    product = matrix @ x.detach().cpu().numpy()
    return torch.from_numpy(np.ascontiguousarray(product)).to(x.device)


def propagate(matrix: csr_matrix, x: Tensor) -> Tensor:
    """`matrix @ x` with gradient."""
    result: Tensor = _Propagate.apply(matrix, x)  # type: ignore[no-untyped-call]
    return result


class Adjacency:
    """What the graph layers need of a layout; `first` has hosts as senders, `second` rows of the table."""

    def __init__(self, layout: WindowLayout) -> None:
        self.layout = layout
        rows = np.arange(layout.rows, dtype=np.int64)
        counts = np.diff(layout.starts)
        ends = layout.starts[1:]
        self.receiver: Int64 = np.repeat(rows, counts + 1)  # with the self loop at the end of each row
        self.sender = {
            "first": np.insert(layout.sender, ends, layout.row_node),
            "second": np.insert(layout.sender_row, ends, rows),
        }
        self.own = {"first": layout.row_node, "second": rows}
        self.weight = np.insert(layout.weight, ends, np.float32(1))
        self.starts = layout.starts + np.arange(layout.rows + 1)
        self._matrices: dict[str, csr_matrix] = {}

    @cached_property
    def visits(self) -> Visits:
        return visits_of(self.layout)

    def columns(self, senders: str) -> int:
        return self.layout.nodes + (self.layout.rows if senders == "second" else 0)

    def normalised(self, senders: str) -> csr_matrix:
        """D^-1/2 (A + I) D^-1/2 by in-degree."""
        if senders not in self._matrices:
            rows = self.layout.rows
            degree = np.ones(rows + self.layout.nodes)
            degree[:rows] = np.bincount(self.receiver, weights=self.weight, minlength=rows)
            scale = 1.0 / np.sqrt(degree)
            values = scale[self.receiver] * self.weight * scale[self.sender["second"]]
            self._matrices[senders] = csr_matrix(
                (values.astype(np.float32), self.sender[senders], self.starts),
                shape=(rows, self.columns(senders)),
            )
        return self._matrices[senders]


class IdentityLookup(nn.Module):
    """XW for identity features: a host's row of W, or the sum of the rows that it has."""

    def __init__(self, table_size: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(table_size, width))
        nn.init.xavier_uniform_(self.weight)

    def fix(self) -> None:
        """Make the rows random unit vectors, the same for everybody: neither trained nor sent."""
        drawn = torch.randn(self.weight.shape, generator=torch.Generator().manual_seed(0))
        del self.weight
        self.register_buffer("weight", nn.functional.normalize(drawn))

    def forward(self, rows: Tensor) -> Tensor:
        known = rows != NOBODY
        rows, every = rows.where(known, 0), bool(known.all())
        columns = (self.weight.index_select(0, rows[:, column]) for column in range(rows.shape[1]))
        found = [part if every else part * known[:, [number]] for number, part in enumerate(columns)]
        looked_up = found[0]
        for part in found[1:]:
            looked_up = looked_up + part
        return looked_up


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.xavier_uniform_(layer.weight)
    return layer


class GraphLayer(nn.Module):
    """New rows for receivers and for idle hosts. `inputs` None: a first layer, on identity rows."""

    def __init__(self, inputs: int | None, outputs: int, table_size: int) -> None:
        super().__init__()
        self.senders = "first" if inputs is None else "second"
        self.map = IdentityLookup(table_size, outputs) if inputs is None else _linear(inputs, outputs)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """`x`: identity rows [hosts, rows per host], or the table before [receivers + hosts, inputs]."""
        raise NotImplementedError


class GCN(GraphLayer):
    """Kipf and Welling's convolution with edge weights and self loops."""

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        mapped = self.map(x)
        received = propagate(adjacency.normalised(self.senders), mapped)
        return torch.cat((received, mapped[-adjacency.layout.nodes :])).add_(self.bias)


class SAGE(GraphLayer):
    """GraphSAGE with max pooling: own row, and the largest of the weighted, activated messages."""

    def __init__(self, inputs: int | None, outputs: int, table_size: int) -> None:
        super().__init__(inputs, outputs, table_size)
        self.pool = IdentityLookup(table_size, outputs) if inputs is None else _linear(inputs, outputs)
        self.pool_bias = nn.Parameter(torch.zeros(outputs))
        self.neighbours = _linear(outputs, outputs)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        layout, mapped = adjacency.layout, self.map(x)
        senders = indices(layout.sender if self.senders == "first" else layout.sender_row)
        messages = torch.relu(self.pool(x) + self.pool_bias).index_select(0, senders)
        messages = messages * torch.from_numpy(layout.weight)[:, None]
        largest = _largest(messages, layout.starts)
        received = mapped.index_select(0, indices(adjacency.own[self.senders])) + self.neighbours(largest)
        return torch.cat((received, mapped[-layout.nodes :])).add_(self.bias)


class GAT(GraphLayer):
    """Graph attention, one head; the logarithm of the event count is one more input of the attention."""

    def __init__(self, inputs: int | None, outputs: int, table_size: int) -> None:
        super().__init__(inputs, outputs, table_size)
        self.attention = nn.Parameter(torch.empty(2, outputs))
        nn.init.xavier_uniform_(self.attention)
        self.attention_weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        layout, mapped = adjacency.layout, self.map(x)
        receiver, sender = indices(adjacency.receiver), indices(adjacency.sender[self.senders])
        own = indices(adjacency.own[self.senders])
        to_sender, to_receiver = (mapped @ self.attention.T).unbind(1)
        logits = to_sender[sender] + to_receiver[own][receiver]
        logits = logits + self.attention_weight * (torch.from_numpy(adjacency.weight) - 1.0)
        logits = nn.functional.leaky_relu(logits, 0.2)
        highest = _largest(logits.detach()[:, None], adjacency.starts)[:, 0]
        mass = torch.exp(logits - highest[receiver])
        total = mass.new_zeros(layout.rows).index_add(0, receiver, mass)
        share = (mass / total[receiver])[:, None]
        received = mapped.new_zeros(layout.rows, mapped.shape[1])
        received = received.index_add(0, receiver, share * mapped.index_select(0, sender))
        return torch.cat((received, mapped[-layout.nodes :])).add_(self.bias)


def _largest(values: Tensor, starts: Int64) -> Tensor:
    """The maximum of each run of rows starts[i]:starts[i + 1]; none of the runs is empty."""
    if len(starts) == 1:
        return values.new_zeros(0, values.shape[1])
    return torch.segment_reduce(values, "max", offsets=indices(starts), axis=0)


GRAPH_LAYERS: dict[str, type[GraphLayer]] = {"gcn": GCN, "sage": SAGE, "gat": GAT}


class _Products(torch.autograd.Function):
    """Inner products of pairs of rows, some thousand pairs at a time: no gathered copy of the whole table."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        ctx.save_for_backward(z, src, dst)
        return torch.cat(
            [(z.index_select(0, a) * z.index_select(0, b)).sum(dim=1) for a, b in _parts(src, dst)]
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        z, src, dst = ctx.saved_tensors
        dz = torch.zeros_like(z)
        for a, b, gradient in _parts(src, dst, gradients[0]):
            dz.index_add_(0, a, z.index_select(0, b).mul_(gradient[:, None]))
            dz.index_add_(0, b, z.index_select(0, a).mul_(gradient[:, None]))
        return dz, None, None


PAIRS = 1 << 14
"""Pairs whose embeddings are gathered at once."""


def _parts(*whole: Tensor) -> Iterator[tuple[Tensor, ...]]:
    for first in range(0, max(len(whole[0]), 1), PAIRS):
        yield tuple(tensor[first : first + PAIRS] for tensor in whole)


class InnerProduct(nn.Module):
    """The logit of an edge is the inner product of its endpoints: nothing to train."""

    def forward(self, z: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        logits: Tensor = _Products.apply(z, src, dst)  # type: ignore[no-untyped-call]
        return logits


class MLP(nn.Module):
    """One hidden layer over both endpoints; tells direction, which an inner product cannot."""

    def __init__(self, embedding: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * embedding, embedding)
        self.out = nn.Linear(embedding, 1)

    def forward(self, z: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        both = torch.cat((z.index_select(0, src), z.index_select(0, dst)), dim=1)
        logits: Tensor = self.out(torch.relu(self.hidden(both)))
        return logits[:, 0]
