"""JSON arrays and pretty-printed objects come out as the same rows that JSON lines would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import entente.logs.framing as framing
from entente.errors import LogError
from entente.logs.framing import framed, possible_depths

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab\\"{}[],:\n\x00é', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\{', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text('k"\\{]', max_size=3), VALUES, max_size=3), max_size=5)


def cut(text: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [piece for piece in [*pieces, text] if piece]


@given(OBJECTS, st.sampled_from([None, 1, 4]), st.lists(st.integers(1, 9), max_size=30), st.integers(0, 3))
def test_objects_come_out_whole_however_they_are_printed_and_cut(
    objects: list[dict[str, Any]], indent: int | None, sizes: list[int], shape: int
) -> None:
    shapes: list[tuple[int, Any]] = [
        (0, None),
        (1, objects),
        (2, {"preview": False, "results": objects}),
        (3, {"took": 1, "shards": {"n": [1]}, "hits": {"total": {"value": 2}, "hits": objects}}),
    ]
    depth, value = shapes[shape]
    separate = "\n".join(json.dumps(each, indent=indent) for each in objects)
    text = (separate if value is None else json.dumps(value, indent=indent)).encode()
    lines = b"".join(framed(iter(cut(text, sizes)), depth)).split(b"\n")[:-1]
    assert [json.loads(line) for line in lines] == objects


@given(st.binary(max_size=200) | st.text('{}[]"\\,\n a', max_size=60).map(str.encode), st.integers(0, 3))
def test_any_bytes_give_lines(data: bytes, depth: int) -> None:
    text = b"".join(framed(iter([data] if data else []), depth))
    assert not text or text.endswith(b"\n")
    again = b"".join(framed(iter([data[i : i + 1] for i in range(len(data))]), depth))
    assert again == text


def test_depths_are_guessed_from_the_beginning() -> None:
    assert possible_depths(b' [\n {"a": 1}') == [1]
    assert possible_depths(b'{"took":1,"hits":{"total":1,"hits":[{"_source":{') == [3]
    assert possible_depths(b'{\n  "results": [\n    {"a": 1}') == [0, 2]
    assert possible_depths(b'{"a": 1}\n{"a": 2}\n') == []
    assert possible_depths(b"time,src\n") == []


def test_an_object_without_end_is_no_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(framing, "LONGEST_VALUE", 1000)
    with pytest.raises(LogError, match="this is no log"):
        list(framed(iter([b'[{"a":"' + b"x" * 5000]), 1))


def test_brackets_that_do_not_fit_give_the_same_rows_however_the_text_is_cut() -> None:
    text = b'[{"a": {"b": 1 ] }, {"a": 2}, {"c": 3}]'
    for depth in range(4):
        whole = b"".join(framed(iter([text]), depth))
        for place in range(1, len(text)):
            assert b"".join(framed(iter([text[:place], text[place:]]), depth)) == whole


def test_a_truncated_array_ends_in_a_bad_row() -> None:
    lines = b"".join(framed(iter([b'[{"a":1},{"b":\n2']), 1))
    assert lines == b'{"a":1}\n{"b": 2\n'
