"""Frames of events, whoever made them, become the same event table."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import entente
from entente.errors import LogError, UsageError
from entente.logs.schema import EVENT_SCHEMA

COLUMNS: dict[str, Any] = {
    "time": [1_000_000, 2_500_000],
    "src": ["a", "b"],
    "dst": ["b", "c"],
    "port": [445, None],
    "comment": ["x", "y"],
}
MOMENTS = [dt.datetime(2024, 5, 1, 12, 0, 0, 250_000), dt.datetime(2024, 5, 1, 13)]


@pytest.mark.parametrize(
    "make", [dict, pa.table, pd.DataFrame, pl.DataFrame], ids=["dict", "arrow", "pandas", "polars"]
)
def test_every_kind_of_frame_gives_the_same_table(make: Any) -> None:
    table = entente.event_table(make(COLUMNS))
    assert table.schema == EVENT_SCHEMA
    assert table["time"].to_pylist() == COLUMNS["time"]
    assert table["port"].to_pylist() == [445, None]
    assert table["user"].null_count == 2


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_datetimes_are_moments_whatever_their_zone(make: Any, zone: str | None) -> None:
    moments = pd.Series(MOMENTS).dt.tz_localize("UTC")
    column = moments.dt.tz_localize(None) if zone is None else moments.dt.tz_convert(zone)
    frame = make(
        {
            "time": pa.array(column)
            if make is pa.table
            else column
            if make is pd.DataFrame
            else pl.from_pandas(column),
            "src": ["a", "b"],
            "dst": ["b", "c"],
        }
    )
    expected = [int(m.replace(tzinfo=dt.UTC).timestamp() * 1e6) for m in MOMENTS]
    assert entente.event_table(frame)["time"].to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([1.5, 2.0], None, [1_500_000, 2_000_000]),
        ([1, 2], None, [1, 2]),
        ([1, 2], "s", [1_000_000, 2_000_000]),
        ([1, 2], "ms", [1000, 2000]),
        ([1999, 2000], "ns", [1, 2]),
        ([1.5, 2.0], "ms", [1500, 2000]),
    ],
)
def test_numbers_are_times_in_the_unit_that_is_said(
    values: list[float], unit: str | None, expected: list[int]
) -> None:
    frame = {"time": values, "src": ["a", "b"], "dst": ["b", "c"]}
    assert entente.event_table(frame, time_unit=unit)["time"].to_pylist() == expected


def test_categories_and_whole_numbers_with_holes_are_read() -> None:
    frame = pd.DataFrame({**COLUMNS, "port": [445.0, np.nan]}).astype({"src": "category"})
    table = entente.event_table(frame)
    assert table["src"].to_pylist() == ["a", "b"]
    assert table["port"].to_pylist() == [445, None]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"time": [1], "src": ["a"]}, "no column 'dst'"),
        ({"time": [1], "src": [None], "dst": ["a"]}, "'src' has 1 empty values"),
        ({"time": ["noon"], "src": ["a"], "dst": ["b"]}, "'time' is of type string"),
        ({"time": [float("nan")], "src": ["a"], "dst": ["b"]}, "'time' is no time"),
        ({"time": [1], "src": ["a"], "dst": ["b"], "port": ["ssh"]}, "'port' does not fit"),
        ({"time": [1, 2], "src": ["a"], "dst": ["b"]}, "cannot be read as a table"),
    ],
)
def test_a_frame_that_is_not_of_events_is_refused_by_column(frame: Any, said: str) -> None:
    with pytest.raises(LogError, match=said):
        entente.event_table(frame)


def test_something_else_is_refused_with_what_would_do() -> None:
    with pytest.raises(UsageError, match="int is not a frame"):
        entente.event_table(3)
    with pytest.raises(UsageError, match="time_unit"):
        entente.event_table(COLUMNS, time_unit="h")
