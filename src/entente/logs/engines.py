"""Who evaluates the expressions: one small adapter per engine, the same rows out of each."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from entente.errors import MissingExtraError, UsageError
from entente.logs.formats.base import Table
from entente.logs.prepared import PreparedQuery, block_connection


def decoded(raw: pa.Table) -> pa.Table:
    """With plain strings in place of dictionaries, for engines that take them for something else."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in raw.schema
    ]
    return raw.cast(pa.schema(fields))


def to_sql(expression: Table, dialect: str) -> str:
    """The expression as SQL that keeps its steps apart, so that no step is evaluated twice."""
    import ibis

    former = ibis.options.sql.fuse_selects
    ibis.options.sql.fuse_selects = False
    try:
        return str(ibis.to_sql(expression, dialect=dialect, pretty=False))
    finally:
        ibis.options.sql.fuse_selects = former


class Engine(ABC):
    """Evaluates one projection over table `raw`, again and again, in one thread."""

    name: ClassVar[str]

    @staticmethod
    @abstractmethod
    def compile(expression: Table) -> Any:
        """What the constructor takes; made once, in the thread that asks."""

    @abstractmethod
    def __init__(self, compiled: Any) -> None: ...

    @abstractmethod
    def evaluate(self, raw: pa.Table) -> pa.Table:
        """The projection's rows, in the order of `raw`."""


class DuckDB(Engine):
    name = "duckdb"

    @staticmethod
    def compile(expression: Table) -> str:
        return to_sql(expression, "duckdb")

    def __init__(self, compiled: str) -> None:
        self._query = PreparedQuery(block_connection(), "raw", compiled)

    def evaluate(self, raw: pa.Table) -> pa.Table:
        return self._query(raw)


class Polars(Engine):
    name = "polars"

    @staticmethod
    def compile(expression: Table) -> Table:
        return expression

    def __init__(self, compiled: Table) -> None:
        self._expression = compiled

    def evaluate(self, raw: pa.Table) -> pa.Table:
        import ibis
        import polars as pl

        backend = ibis.polars.connect({"raw": pl.LazyFrame(pl.from_arrow(decoded(raw)))})
        return backend.to_pyarrow(self._expression)


NO_SPARK = MissingExtraError("the spark engine needs PySpark and Java", remedy="pip install 'entente[spark]'")


def spark_session(name: str, settings: Mapping[str, str] | None = None) -> Any:
    """The Spark session of this process, or a new one with these settings."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NO_SPARK from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whichever is on the path
    if _on_this_machine(settings or {}):
        # A cluster within this machine talks to itself; left alone, Spark listens on the network's address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder.appName(name)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **(settings or {}),
    }.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j raises what the Java side says, under many names
        raise MissingExtraError(
            f"Spark does not start ({error})", remedy="Install a Java runtime (17 or newer) and try again."
        ) from error


def _on_this_machine(settings: Mapping[str, str]) -> bool:
    """Whether Spark's workers are here: as the settings say, or because nothing names a cluster."""
    master = settings.get("spark.master", os.environ.get("MASTER", ""))
    elsewhere = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
    return master.startswith("local") or not (master or any(name in os.environ for name in elsewhere))


ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (DuckDB, Polars)}
SPARK = ("spark", "pyspark")
"""Names of the cluster whose workers read the files themselves (`logs.distributed`)."""


def engine_named(name: str) -> type[Engine]:
    """The engine in this process; Spark's workers use DuckDB."""
    if name in SPARK:
        return DuckDB
    if name not in ENGINES:
        known = ", ".join([*ENGINES, SPARK[0]])
        raise UsageError(f"there is no engine {name!r}", remedy=f"Engines: {known}.")
    return ENGINES[name]
