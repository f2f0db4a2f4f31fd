"""A query that is planned once answers for the table at hand, whatever the tables before it were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from entente.logs import engines
from entente.logs.prepared import PreparedQuery, block_connection, quoted

WORD = "it's"


def test_every_table_gets_the_answer_of_its_own_rows() -> None:
    query = PreparedQuery(block_connection(), "raw", "SELECT a || '!' AS b FROM raw")
    for rows in (["x", None], [], ["y"] * 5_000):
        found = query(pa.table({"a": pa.array(rows, pa.string())}))
        assert found["b"].to_pylist() == [None if row is None else f"{row}!" for row in rows]


def test_a_table_of_other_types_is_planned_anew() -> None:
    query = PreparedQuery(block_connection(), "raw", "SELECT a || '!' AS b FROM raw")
    plain = pa.table({"a": ["x", "y", "x"]})
    encoded = pa.table({"a": plain["a"].dictionary_encode()})
    for table in (plain, encoded, plain, encoded):
        assert query(table)["b"].to_pylist() == ["x!", "y!", "x!"]


def test_two_queries_share_a_connection() -> None:
    connection = block_connection()
    first = PreparedQuery(connection, "one", "SELECT a FROM one")
    second = PreparedQuery(connection, "two", f"SELECT {quoted(WORD)} AS a FROM two")
    table = pa.table({"a": ["x"]})
    answers = [query(table)["a"].to_pylist() for query in (first, second, first)]
    assert answers == [["x"], [WORD], ["x"]]


@pytest.mark.parametrize(
    ("master", "environment", "here"),
    [
        ("local-cluster[2,1,512]", {}, True),
        ("spark://cluster:7077", {}, False),
        ("", {}, True),
        ("", {"MASTER": "yarn"}, False),
        ("", {"SPARK_CONF_DIR": "conf"}, False),
    ],
)
def test_spark_keeps_to_loopback_where_its_workers_are_on_this_machine(
    master: str, environment: dict[str, str], here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = {"spark.master": master} if master else {}
    assert engines._on_this_machine(settings) is here
