"""Who runs the query: one adapter per engine, from the name of a table to its rows as Arrow."""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from entente.errors import LogError, MissingExtraError, UsageError
from entente.logs.engines import spark_session, to_sql
from entente.logs.formats.base import Table

SOURCE = "entente_source"
"""Name of the table in the SQL."""
MEMORY = "4GB"
"""What DuckDB may hold before it goes to disk."""


class TableEngine(ABC):
    """An open table of events."""

    name: ClassVar[str]
    dialect: ClassVar[str]
    """Of the SQL."""
    here: ClassVar[bool] = True
    """Whether it works in this process, where what it gives need not be small."""

    source: Table
    """The table, for expressions."""

    def __init__(self, table: str) -> None:
        self._name = table

    def rows(self, expression: Table) -> pa.Table:
        """What the expression over `source` gives."""
        try:
            return self._run(expression)
        except Exception as error:  # every engine has errors of its own
            raise _unreadable(self._name, error) from error

    @abstractmethod
    def _run(self, expression: Table) -> pa.Table: ...


class DuckDBTables(TableEngine):
    name = "duckdb"
    dialect = "duckdb"

    def __init__(self, table: str, settings: dict[str, str]) -> None:
        super().__init__(table)
        import duckdb
        import ibis

        self._connection = duckdb.connect(
            config={"memory_limit": MEMORY, "preserve_insertion_order": False, **settings}
        )
        self._connection.sql("SET enable_progress_bar = false")  # it would be drawn into the result
        files = ", ".join("'" + file.replace("'", "''") + "'" for file in parquet_files(table))
        try:
            self._connection.sql(
                # The names of the files are quoted above.
                f"CREATE VIEW {SOURCE} AS SELECT * FROM read_parquet([{files}], "  # noqa: S608 # nosec B608
                "hive_partitioning = true, hive_types_autocast = false)"
            )
        except duckdb.Error as error:
            raise _unreadable(table, error) from error
        reader = self._connection.sql(f"SELECT * FROM {SOURCE} LIMIT 0").to_arrow_table()  # noqa: S608 # nosec B608
        self.source = ibis.table(ibis.Schema.from_pyarrow(reader.schema), name=SOURCE)

    def _run(self, expression: Table) -> pa.Table:
        return self._connection.sql(to_sql(expression, self.dialect)).to_arrow_table()


class PolarsTables(TableEngine):
    name = "polars"
    dialect = "polars"

    def __init__(self, table: str, settings: dict[str, str]) -> None:
        super().__init__(table)
        import ibis
        import polars as pl

        _no_settings(self.name, settings)
        try:
            frame = pl.scan_parquet(
                parquet_files(table), hive_partitioning=True, try_parse_hive_dates=False, glob=False
            )
            self._backend = ibis.polars.connect({SOURCE: frame})
            self.source = self._backend.table(SOURCE)
        except pl.exceptions.PolarsError as error:
            raise _unreadable(table, error) from error

    def _run(self, expression: Table) -> pa.Table:
        return self._backend.to_pyarrow(expression)


class Spark(TableEngine):
    """A folder of Parquet, or the name of a table that the session's catalogue knows."""

    name = "spark"
    dialect = "pyspark"
    here = False

    def __init__(self, table: str, settings: dict[str, str]) -> None:
        super().__init__(table)
        import ibis

        # Days are compared as text.
        plain = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
        self._session = spark_session("entente edges", {**plain, **settings})
        try:
            # As the others do: a folder may hold files that are no Parquet, an event directory its checksums.
            files = self._session.read.option("pathGlobFilter", "*.parquet")
            frame = files.parquet(table) if _is_folder(table) else self._session.table(table)
        except Exception as error:  # py4j raises what the Java side says, under many names
            raise _unreadable(table, error) from error
        frame.createOrReplaceTempView(SOURCE)
        schema = ibis.pyspark.connect(self._session).table(SOURCE).schema()
        self.source = ibis.table(schema, name=SOURCE)

    def _run(self, expression: Table) -> pa.Table:
        return self._session.sql(to_sql(expression, self.dialect)).toArrow()


class ClickHouse(TableEngine):
    """Files, read by ClickHouse's own engine in this process (chdb)."""

    name = "clickhouse"
    dialect = "clickhouse"

    def __init__(self, table: str, settings: dict[str, str]) -> None:
        super().__init__(table)
        try:
            import chdb.session
        except ImportError as error:
            raise MissingExtraError(
                "the clickhouse engine on files needs chdb", remedy="pip install 'entente[clickhouse]'"
            ) from error
        import ibis
        from ibis.backends.sql.datatypes import ClickHouseType

        start: Any = chdb.session.Session
        self._session: Any = start()
        for key, value in {"use_hive_partitioning": "1", **settings}.items():
            self._session.query(f"SET {key} = {_quoted(value)}")
        where = table if not Path(table).is_dir() else f"{table.rstrip('/')}/**/*.parquet"
        try:
            self._session.query(f"CREATE VIEW {SOURCE} AS SELECT * FROM file({_quoted(where)}, Parquet)")  # noqa: S608 # nosec B608
            described = self._arrow(f"DESCRIBE TABLE {SOURCE}")
        except RuntimeError as error:
            raise _unreadable(table, error) from error
        kinds = {row["name"]: ClickHouseType.from_string(row["type"]) for row in described.to_pylist()}
        self.source = ibis.table(kinds, name=SOURCE)

    def _run(self, expression: Table) -> pa.Table:
        return self._arrow(to_sql(expression, self.dialect))

    def _arrow(self, query: str) -> pa.Table:
        found = self._session.query(query, "ArrowStream").bytes()
        with pa.ipc.open_stream(found) as reader:
            return reader.read_all()


class Server(TableEngine):
    """A table of a ClickHouse or Trino server, by Ibis's own client: scheme://user@host:port/database/table."""

    here = False

    def __init__(self, table: str, settings: dict[str, str]) -> None:
        super().__init__(table)
        import ibis

        _no_settings(self.name, settings)
        address, _, name = table.rpartition("/")
        try:
            self._backend = ibis.connect(address)
            self.source = self._backend.table(name)
        except ImportError as error:
            raise MissingExtraError(
                f"the {self.name} engine needs its client",
                remedy=f"pip install 'ibis-framework[{self.name}]'",
            ) from error
        except Exception as error:  # every client has errors of its own
            raise _unreadable(name, error) from error

    def _run(self, expression: Table) -> pa.Table:
        return self._backend.to_pyarrow(expression)


class ClickHouseServer(Server):
    name = "clickhouse"
    dialect = "clickhouse"


class Trino(Server):
    name = "trino"
    dialect = "trino"


ENGINES: dict[str, type[TableEngine]] = {
    engine.name: engine for engine in (DuckDBTables, PolarsTables, Spark, ClickHouse, Trino)
}


def opened_table(engine: str, table: str, settings: dict[str, str]) -> TableEngine:
    """The table, ready to be asked; an error that says what to do where it cannot be opened."""
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}", remedy=f"Engines: {', '.join(ENGINES)}.")
    kind = ENGINES[engine]
    if engine == "clickhouse" and "://" in table:
        kind = ClickHouseServer
    if engine == "trino" and "://" not in table:
        raise UsageError(
            f"{table!r} is no Trino table", remedy="Name it as trino://user@host:port/catalog/schema/table."
        )
    _refuse_table_log(table)
    made: Any = kind
    opened: TableEngine = made(table, settings)
    return opened


def parquet_files(table: str) -> list[str]:
    """The Parquet files that a folder, a glob or a file name leads to."""
    path = Path(table)
    if path.is_dir():
        found = sorted(
            str(file)
            for file in path.rglob("*.parquet")
            if not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        )
    else:
        found = sorted(glob.glob(table, recursive=True)) if not path.is_file() else [table]
    if not found:
        raise LogError("leads to no Parquet file", where=table, remedy="Name a folder, a file or a glob.")
    return found


def _refuse_table_log(table: str) -> None:
    """Iceberg and Delta keep former files beside those that count: reading all would count rows twice."""
    for log, kind in (("metadata/*.metadata.json", "Iceberg"), ("_delta_log/*.json", "Delta")):
        if Path(table).is_dir() and any(Path(table).glob(log)):
            raise UsageError(
                f"is {kind}'s: its folder also holds files that no longer count",
                where=table,
                remedy="Ask spark or trino for it, by its name in their catalogue.",
            )


def _is_folder(table: str) -> bool:
    return "/" in table or table.endswith(".parquet") or Path(table).exists()


def _no_settings(engine: str, settings: dict[str, str]) -> None:
    if settings:
        raise UsageError(f"--setting does not apply to the {engine} engine")


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _unreadable(table: str, error: Exception) -> LogError:
    said = str(error).strip().splitlines()
    return LogError(f"cannot be read ({said[0][:200] if said else type(error).__name__})", where=table)
