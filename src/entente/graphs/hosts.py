"""The hosts a silo knows: the one place where a host's name is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.errors import GraphError

Int32 = NDArray[np.int32]
Names = NDArray[np.str_]

UNKNOWN = -1
"""Number of a host that the table does not hold."""


@dataclass(frozen=True, slots=True, eq=False)
class HostTable:
    """Hosts in the order in which a silo met them; host i is node i of all its graphs, for good."""

    names: Names
    own: NDArray[np.bool_]  # whether the host belongs to the silo
    rows: Int32  # [hosts, rows per host]: its rows of the federated identity table

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.own) == len(self.rows):
            raise GraphError("the columns of a host table differ in length")

    @staticmethod
    def empty(rows_per_host: int) -> HostTable:
        return HostTable(
            np.empty(0, dtype=np.str_), np.empty(0, dtype=bool), np.empty((0, rows_per_host), dtype=np.int32)
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def own_hosts(self) -> int:
        return int(self.own.sum())

    def numbers(self, names: Names) -> Int32:
        """The number of each of `names`; UNKNOWN where the table does not hold it."""
        if not len(self.names):
            return np.full(len(names), UNKNOWN, dtype=np.int32)
        by_name = np.argsort(self.names, kind="stable")
        place = np.searchsorted(self.names, names, sorter=by_name)
        found = by_name[np.minimum(place, len(by_name) - 1)]
        return np.where(self.names[found] == names, found, UNKNOWN).astype(np.int32)

    def extend(self, names: Names, own: NDArray[np.bool_], rows: Int32) -> HostTable:
        """The table with new hosts at its end; the others keep their numbers."""
        again = self.numbers(names) != UNKNOWN
        if again.any() or len(np.unique(names)) != len(names):
            raise GraphError("a host cannot be added to a host table twice")
        return HostTable(
            np.concatenate([self.names, names]),
            np.concatenate([self.own, own]),
            np.concatenate([self.rows, rows]).astype(np.int32),
        )

    def owning(self, own: NDArray[np.bool_]) -> HostTable:
        """The table with other owners."""
        return replace(self, own=own)

    def to_arrow(self) -> pa.Table:
        """Columns host, own and rows, for Parquet."""
        per_host = self.rows.shape[1]
        flat = pa.array(np.ascontiguousarray(self.rows).reshape(-1), pa.int32())
        columns = {
            "host": pa.array(self.names.tolist(), pa.string()),
            "own": pa.array(self.own),
            "rows": pa.FixedSizeListArray.from_arrays(flat, per_host),
        }
        return pa.table(columns)

    @staticmethod
    def from_arrow(table: pa.Table) -> HostTable:
        """What `to_arrow` gave; GraphError for another table."""
        try:
            kind = table.schema.field("rows").type
            names: Sequence[str] = table["host"].to_pylist()
            own = np.array(table["own"].to_pylist(), dtype=bool)
            flat = table["rows"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            rows = np.asarray(flat, dtype=np.int32).reshape(-1, kind.list_size)
        except (KeyError, AttributeError, ValueError, pa.ArrowException) as error:
            raise GraphError(f"is not a host table ({error})") from error
        return HostTable(np.array(names, dtype=np.str_), own, rows)
