"""Euler's network: two graph layers, a recurrence, a projection, a decoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from entente.detectors.base import GraphShape
from entente.detectors.euler.cells import States
from entente.detectors.euler.options import EulerSettings
from entente.detectors.euler.recurrence import Recurrence
from entente.detectors.layers import GRAPH_LAYERS, MLP, Adjacency, IdentityLookup, InnerProduct


class Encoder(nn.Module):
    """Graph embeddings of every receiver in every window, and of every idle host."""

    def __init__(self, settings: EulerSettings, table_size: int) -> None:
        super().__init__()
        layer = GRAPH_LAYERS[settings.encoder]
        self.dropout = settings.dropout
        self.first = layer(None, settings.hidden, table_size)
        self.second = layer(settings.hidden, settings.hidden, table_size)
        if settings.identities == "fixed":
            for part in self.first.children():
                if isinstance(part, IdentityLookup):
                    part.fix()

    def forward(self, rows: Tensor, adjacency: Adjacency, noise: torch.Generator | None) -> Tensor:
        table = self._drop(torch.relu_(self.first(rows, adjacency)), noise)
        return self._drop(torch.tanh_(self.second(table, adjacency)), noise)

    def _drop(self, x: Tensor, noise: torch.Generator | None) -> Tensor:
        """Dropout, drawn anew for each receiver in each window and once for each idle host."""
        if noise is None or self.dropout == 0:
            return x
        kept = torch.rand(x.shape, generator=noise) >= self.dropout
        return x * (kept.to(x.device) * (1.0 / (1.0 - self.dropout)))


class EulerModel(nn.Module):
    """Embeddings Z of hosts by window, and logits of pairs."""

    def __init__(self, settings: EulerSettings, shape: GraphShape) -> None:
        super().__init__()
        self.encoder = Encoder(settings, shape.table_size)
        self.recurrence = (
            None
            if settings.temporal == "none"
            else Recurrence(settings.temporal, settings.hidden, settings.hidden)
        )
        self.by_visit = settings.advance == "visits" and self.recurrence is not None
        self.projection = nn.Linear(settings.hidden, settings.embedding)
        self.decoder = InnerProduct() if settings.decoder == "inner" else MLP(settings.embedding)

    def forward(
        self,
        rows: Tensor,
        adjacency: Adjacency,
        initial: States,
        noise: torch.Generator | None = None,
    ) -> tuple[Tensor, States]:
        """Z and the states after the last window.

        Z has one row per visit and one per host's first state; or one per window and host; or, without
        recurrence, one per receiver and idle host.
        """
        table = self.encoder(rows, adjacency, noise)
        if self.recurrence is None:
            return self.projection(table), ()
        if self.by_visit:
            return self.recurrence.by_visit(table, adjacency.visits, initial, self.projection)
        return self.recurrence.by_window(table, adjacency.layout, initial, self.projection)
