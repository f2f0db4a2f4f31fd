"""Two kinds of nodes joined by typed, counted links: what the block model clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from entente.errors import GraphError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Bipartite:
    """Links (top, bottom, type, weight) as parallel arrays, each combination once."""

    tops: tuple[str, ...]
    bottoms: tuple[str, ...]
    types: tuple[str, ...]
    top: IntArray
    bottom: IntArray
    type: IntArray
    weight: FloatArray

    def presence(self) -> Bipartite:
        """Every link counted once, however often it was used: what separates habits from volume."""
        return replace(self, weight=np.ones(len(self.weight)))

    def by_top(self) -> sparse.csr_array:
        """Rows (top, type), columns bottom."""
        shape = (len(self.tops) * len(self.types), len(self.bottoms))
        return sparse.csr_array((self.weight, (self.top * len(self.types) + self.type, self.bottom)), shape)

    def by_bottom(self) -> sparse.csr_array:
        """Rows (bottom, type), columns top."""
        shape = (len(self.bottoms) * len(self.types), len(self.tops))
        return sparse.csr_array((self.weight, (self.bottom * len(self.types) + self.type, self.top)), shape)


def build_bipartite(
    tops: Sequence[str], bottoms: Sequence[str], types: Sequence[str], weights: Sequence[float]
) -> Bipartite:
    """From one row per link; rows of the same link are added up, names are numbered in sorted order."""
    if not len(tops):
        raise GraphError("there is no link to cluster", remedy="Choose another view of the events.")
    names, columns = [], []
    for column in (tops, bottoms, types):
        known, numbers = np.unique(np.asarray(column, dtype=np.str_), return_inverse=True)
        names.append(tuple(known.tolist()))
        columns.append(numbers.astype(np.int64))
    key = (columns[0] * len(names[1]) + columns[1]) * len(names[2]) + columns[2]
    links, inverse = np.unique(key, return_inverse=True)
    ends, kind = np.divmod(links, len(names[2]))
    top, bottom = np.divmod(ends, len(names[1]))
    weight = np.bincount(inverse, np.asarray(weights, dtype=np.float64)).astype(np.float64)
    return Bipartite(names[0], names[1], names[2], top, bottom, kind, weight)
