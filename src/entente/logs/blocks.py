"""Blocks of lines -> tables of text columns, fast where lines are regular, patiently where not."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from entente.logs.formats.base import Delimited, JsonLines, Layout, Only
from entente.logs.prepared import PreparedQuery, block_connection, quoted

NOT_JSON = "not a JSON object"
BLANKS = "chr(9) || chr(10) || chr(13) || ' '"
"""What JSON takes for blanks, in SQL."""


@dataclass(frozen=True, slots=True)
class RawBlock:
    """Rows of one block: their fields, where they stand in the file, and which fell into no fields."""

    fields: pa.Table
    lines: NDArray[np.int64]
    """Line number of each row in its file, from 1."""
    malformed: dict[int, str]
    """Row -> why its line does not have the layout; its fields are null."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> rows of the block that are not here, because nobody wants their kind."""


ENCODED = pa.dictionary(pa.int32(), pa.string())


def raw_columns(layout: Layout) -> tuple[str, ...]:
    """Columns of the tables that `split` makes."""
    own = layout.used if isinstance(layout, Delimited) else tuple(layout.paths)
    return own + tuple(name for name, _ in layout.given)


class Splitter:
    """Cuts blocks of lines into fields, for one thread."""

    def __init__(self) -> None:
        self._layout: JsonLines | None = None
        self._others: PreparedQuery | None = None
        self._extracted: PreparedQuery | None = None

    def split(self, block: bytes, first_line: int, layout: Layout, encoded: Collection[str] = ()) -> RawBlock:
        """The fields of whole lines, the first of which is number `first_line`.

        The columns in `encoded` come as dictionaries where that is the cheaper way.
        """
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        if isinstance(layout, JsonLines):
            raw = self._split_json(block, first_line, layout)
        else:
            while first_line <= layout.skip and block:
                block = block[block.index(b"\n") + 1 :]
                first_line += 1
            fast = _split_fast(block, first_line, layout, encoded)
            raw = fast if fast is not None else _split_patiently(block, first_line, layout)
        if not layout.given:
            return raw
        fields = raw.fields
        for name, value in layout.given:
            fields = fields.append_column(name, pa.repeat(value, fields.num_rows))
        return replace(raw, fields=fields)

    def _split_json(self, block: bytes, first_line: int, layout: JsonLines) -> RawBlock:
        """By DuckDB, whichever engine follows: what is valid JSON must not depend on the engine."""
        extracted = self._queries(layout)
        lines = _line_array(block)
        numbers = np.arange(first_line, first_line + len(lines))
        filled = pc.not_equal(pc.binary_length(pc.utf8_trim_whitespace(lines)), 0)
        if not pc.all(filled).as_py():
            lines = lines.filter(filled)
            numbers = numbers[filled.to_numpy(zero_copy_only=False)]
        left_out: dict[str, int] = {}
        if layout.only is not None:
            assert self._others is not None
            other = self._others(pa.table({"line": lines})).column(0).to_numpy()
            left_out = {layout.only.reason: int(other.sum())} if other.any() else {}
            lines, numbers = lines.filter(pa.array(~other)), numbers[~other]
        table = extracted(pa.table({"line": lines}))
        proper = table["_object"].fill_null(False).to_numpy()
        malformed = dict.fromkeys(np.flatnonzero(~proper).tolist(), NOT_JSON)
        return RawBlock(table.drop_columns("_object"), numbers, malformed, left_out)

    def _queries(self, layout: JsonLines) -> PreparedQuery:
        """Those of the layout, made anew where it is another one than before."""
        if self._extracted is None or layout != self._layout:
            self._layout = layout
            connection = block_connection()
            self._extracted = PreparedQuery(connection, "records", _extraction(layout))
            if layout.only is not None:
                self._others = PreparedQuery(connection, "raw_lines", _other_rows(layout.only))
        return self._extracted


def _other_rows(only: Only) -> str:
    """Lines that look like whole objects and lack a word of the wanted records; escapes may hide it."""
    has = " AND ".join(f"contains(line, {quoted(word)})" for word in only.words)
    return f"""
        SELECT NOT ({has}) AND NOT contains(line, '\\u')
            AND starts_with(line, '{{') AND ends_with(line, '}}')
        FROM raw_lines
    """  # noqa: S608 - words are quoted # nosec B608


def _extraction(layout: JsonLines) -> str:
    """The columns of each record as text, and whether it is an object; all null where it is no JSON."""
    envelope = layout.envelope
    inside = "$" if envelope.text else _json_path(envelope.keys)
    paths = ", ".join(quoted(inside + _json_path(keys)[1:]) for keys in layout.paths.values())
    record = "line"
    if envelope.text:
        record = f"TRY(json_extract_string(line, {quoted(_json_path(envelope.keys))}))"
    # One pass over a document for all paths. What parses and begins with a brace is an object.
    is_object = f"starts_with(ltrim(record, {BLANKS}), '{{') AND found IS NOT NULL"
    if inside != "$":
        is_object = f"TRY(json_type(record, {quoted(inside)})) = 'OBJECT'"
    names = ", ".join(f'found[{i + 1}] AS "{name}"' for i, name in enumerate(layout.paths))
    return f"""
        SELECT {is_object} AS "_object", {names}
        FROM (SELECT record, TRY(json_extract_string(record, [{paths}])) AS found
              FROM (SELECT {record} AS record FROM records))
    """  # noqa: S608 - paths are quoted, column names are the format's own # nosec B608


def _json_path(keys: Sequence[str]) -> str:
    return "$" + "".join(f".{json.dumps(key)}" for key in keys)


def _split_fast(
    block: bytes, first_line: int, layout: Delimited, encoded: Collection[str]
) -> RawBlock | None:
    """All lines at once; None when one of them is not plainly a row."""
    if not block or b"\r" in block or not _is_utf8(block):
        return None
    comment = layout.comment.encode() if layout.comment else b""
    # One byte is found far faster than two, and where it is absent that is all.
    if comment and comment in block and (block.startswith(comment) or b"\n" + comment in block):
        return None
    plain = next((name for name in layout.used if name not in encoded), None)
    irregular = False

    def note(_: Any) -> str:
        nonlocal irregular
        irregular = True
        return "skip"

    try:
        table = pacsv.read_csv(
            pa.BufferReader(block),
            pacsv.ReadOptions(column_names=layout.columns, use_threads=False, block_size=len(block) + 1),
            pacsv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char='"' if layout.quoted else False,
                double_quote=True,
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            pacsv.ConvertOptions(
                include_columns=layout.used,
                column_types={name: ENCODED if name in encoded else pa.string() for name in layout.used},
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if irregular or table.num_rows != block.count(b"\n"):
        return None
    # A blank line came out as a row of empty fields.
    empty = pc.any(pc.equal(pc.binary_length(table[plain]), 0)).as_py() if plain else True
    if empty and (block.startswith(b"\n") or b"\n\n" in block):
        return None
    return RawBlock(table, np.arange(first_line, first_line + table.num_rows), {})


def _is_utf8(block: bytes) -> bool:
    """Arrow cannot hand over an irregular row that is not UTF-8, and would leave it out."""
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split_patiently(block: bytes, first_line: int, layout: Delimited) -> RawBlock:
    """Line by line; a row that does not fit is named instead of ending everything."""
    places = [layout.columns.index(name) for name in layout.used]
    rows: list[Sequence[str | None]] = []
    lines: list[int] = []
    malformed: dict[int, str] = {}
    empty = [None] * len(places)
    for number, line in enumerate(_text_lines(block), first_line):
        if not line.strip():
            continue
        if layout.comment and line.startswith(layout.comment):
            continue
        fields = line.split(layout.delimiter)
        if layout.quoted and '"' in line:
            try:
                fields = next(csv.reader([line], delimiter=layout.delimiter))
            except csv.Error:  # a lone carriage return, or a field of more than 128 kB
                malformed[len(rows)] = "not a row of quoted fields"
                rows.append(empty)
                lines.append(number)
                continue
        if len(fields) == len(layout.columns):
            rows.append([fields[place] for place in places])
        else:
            malformed[len(rows)] = f"{len(fields)} fields instead of {len(layout.columns)}"
            rows.append(empty)
        lines.append(number)
    columns = zip(*rows, strict=True) if rows else [()] * len(places)
    table = pa.table(
        {name: pa.array(column, pa.string()) for name, column in zip(layout.used, columns, strict=True)}
    )
    return RawBlock(table, np.array(lines, dtype=np.int64), malformed)


def _text_lines(block: bytes) -> list[str]:
    return block.decode("utf-8", "replace").split("\n")[:-1]


def _line_array(block: bytes) -> pa.StringArray:
    """The block's lines without copying it more than once."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10).astype(np.int32)
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), ends + 1])
    lines = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(block))
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(_text_lines(block), pa.string())
    return pc.utf8_rtrim(lines, characters="\r\n")
