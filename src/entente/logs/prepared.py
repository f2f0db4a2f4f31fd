"""One query over many Arrow tables, planned once: that may take as long as the rows of a block."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class _Held:
    """What DuckDB knows as the table; which one it is changes from call to call."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class PreparedQuery:
    """SQL over the table `name`, for one thread and one connection."""

    def __init__(self, connection: Any, name: str, sql: str) -> None:
        self._connection = connection
        self._name = name
        self._sql = sql
        self._held: _Held | None = None

    def __call__(self, table: pa.Table) -> pa.Table:
        """The rows, in the order of `table`."""
        if self._held is None or self._held.table.schema != table.schema:
            self._prepare(table)
        else:
            self._held.table = table
        return self._connection.sql(f"EXECUTE of_{self._name}").to_arrow_table()

    def _prepare(self, table: pa.Table) -> None:
        if self._held is not None:
            self._connection.execute(f"DEALLOCATE of_{self._name}")
        self._held = _Held(table)
        self._connection.register(self._name, self._held)
        self._connection.execute(f"PREPARE of_{self._name} AS {self._sql}")


def block_connection() -> Any:
    """A connection for blocks that are worked on side by side: one thread each."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
    # A join for every list of words costs more than comparing with them.
    connection.execute("SET disabled_optimizers = 'in_clause'")
    return connection


def quoted(text: str) -> str:
    """As a literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"
