"""Text to time: the expressions of all formats against Python's own calendar, on both built-in engines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.logs.engines import ENGINES, Engine
from entente.logs.formats import formats
from entente.logs.formats.base import Options
from entente.logs.projection import projection

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def evaluated(engine: Engine, texts: list[str]) -> list[dict[str, object]]:
    column = pa.array(texts, pa.string())
    same = pa.array(["h"] * len(texts))
    rows: list[dict[str, object]] = engine.evaluate(
        pa.table({"time": column, "src": same, "dst": same})
    ).to_pylist()
    return rows


@pytest.fixture(scope="module", params=["duckdb", "polars"])
def engine(request: pytest.FixtureRequest) -> Engine:
    made = ENGINES[request.param]
    return made(made.compile(projection(formats()["csv"], ("time", "src", "dst"), Options()).expression))


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)).flatmap(
            lambda moment: st.integers(-14 * 60, 14 * 60).map(
                lambda offset: moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
            )
        ),
        min_size=1,
        max_size=50,
    )
)
def test_iso_times_with_any_offset_are_the_calendars(engine: Engine, moments: list[datetime]) -> None:
    texts = [moment.isoformat(timespec="microseconds") for moment in moments]
    assert [row["time"] for row in evaluated(engine, texts)] == [micros(moment) for moment in moments]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(-(10**16), 10**16), min_size=1, max_size=50))
def test_decimal_seconds_keep_every_microsecond(engine: Engine, times: list[int]) -> None:
    texts = [f"{'-' if time < 0 else ''}{abs(time) // 10**6}.{abs(time) % 10**6:06}" for time in times]
    assert [row["time"] for row in evaluated(engine, texts)] == times


def test_the_ways_to_write_a_time(engine: Engine) -> None:
    noon = datetime(2020, 8, 6, 12, tzinfo=UTC)
    same = [
        "2020-08-06T12:00:00Z",
        "2020-08-06 12:00:00",
        "2020/08/06 12:00:00.000",
        "2020-08-06T14:00:00+0200",
        "2020-08-06T08:30:00,000000-03:30",
        "2020-08-06 12:00:00 UTC",
        "1596715200",
        "1596715199.9999999",
    ]
    rows = evaluated(engine, same)
    assert [row["time"] for row in rows] == [micros(noon)] * len(same)
    assert [row["local"] for row in rows] == [False, True, True, False, False, False, False, False]


def test_what_is_no_time_is_bad_on_every_engine_alike(engine: Engine) -> None:
    wrong = [
        *("2021-02-29T00:00:00Z", "2020-13-01T00:00:00Z", "2020-00-10T00:00:00Z", "2020-04-31 00:00:00"),
        *("2020-08-06T24:00:00Z", "2020-08-06T10:60:00Z", "2020-08-06", "yesterday"),
        *("1e9", "0x10", "1_000", "NaN", "inf", "12.", ".5", "999999999999999999999"),
    ]
    assert [row["bad"] for row in evaluated(engine, wrong)] == ["no readable time"] * len(wrong)
    assert evaluated(engine, ["2020-02-29T00:00:00Z"])[0]["bad"] is None


def test_a_time_without_name_for_its_day_is_out_of_range(engine: Engine) -> None:
    late = [row["bad"] for row in evaluated(engine, ["-99999999999", "0000-06-01T00:00:00Z"])]
    assert late == ["time out of range", "time out of range"]


@pytest.mark.parametrize("name", ["duckdb", "polars"])
def test_nanoseconds_lose_their_last_three_digits_and_nothing_else(name: str) -> None:
    made = ENGINES[name]
    wanted = projection(formats()["csv"], ("time", "src", "dst"), Options(time_unit="ns"))
    texts = ["1700000000250000999", "9223372036854775807", "-1700000000250000999", "12", "0", "1999"]
    rows = evaluated(made(made.compile(wanted.expression)), texts)
    expected = [1_700_000_000_250_000, 9_223_372_036_854_775, -1_700_000_000_250_000, 0, 0, 1]
    assert [row["time"] for row in rows] == expected
