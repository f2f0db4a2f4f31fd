"""scores.parquet: one row per edge and silo that sees it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from entente.artifacts import replacing
from entente.detection.metrics import MICROSECONDS
from entente.detection.scored import ScoredEdges
from entente.errors import StorageError

_NAMES = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("window", pa.int64()),
        ("src", _NAMES),
        ("dst", _NAMES),
        ("score", pa.float32()),
        ("threshold", pa.float32()),
        ("alert", pa.bool_()),
        ("silo", _NAMES),
        ("own_source", pa.bool_()),
        ("label", pa.uint8()),
    ]
)
"""`alert`: the score exceeds the silo's own threshold. `own_source`: the silo owns the edge's source, so that
its score counts where two silos see the edge. `label` only where the log has labels."""


def write_scores(path: Path, scored: Iterable[ScoredEdges]) -> None:
    """Write the scores of all silos, whole or not at all."""
    parts = list(scored)
    labelled = any(part.label is not None for part in parts)
    schema = SCHEMA if labelled else SCHEMA.remove(SCHEMA.get_field_index("label"))
    with replacing(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for part in parts:
            writer.write_table(_table(part, schema))


def _table(scored: ScoredEdges, schema: pa.Schema) -> pa.Table:
    hosts = pa.array(scored.hosts.tolist(), pa.string())
    columns: dict[str, Any] = {
        "window": scored.window,
        "src": pa.DictionaryArray.from_arrays(scored.src, hosts),
        "dst": pa.DictionaryArray.from_arrays(scored.dst, hosts),
        "score": scored.score,
        "threshold": scored.threshold,
        "alert": scored.alert,
        "silo": pa.DictionaryArray.from_arrays(scored.silo.astype(np.int32), list(scored.silos)),
        "own_source": scored.own_source,
        "label": pa.nulls(len(scored), pa.uint8()) if scored.label is None else scored.label,
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def read_scores(path: Path, window_seconds: float) -> ScoredEdges:
    """All rows of scores.parquet; StorageError if it is something else."""
    try:
        table = parquet.read_table(path, read_dictionary=["src", "dst", "silo"])
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"is not readable Parquet ({error})", where=path) from error
    missing = [name for name in SCHEMA.names if name != "label" and name not in table.column_names]
    if missing:
        raise StorageError(
            f"has no column {missing[0]}", where=path, remedy="Write it again with `entente train --resume`."
        )
    (hosts, (src, dst)), (silos, (silo,)) = _codes(table, "src", "dst"), _codes(table, "silo")
    thresholds = np.zeros(len(silos), dtype=np.float32)
    thresholds[silo] = table["threshold"].to_numpy()
    labelled = "label" in table.column_names and table["label"].null_count < len(table)
    return ScoredEdges(
        hosts=np.array(hosts, dtype=np.str_),
        silos=tuple(silos),
        thresholds=tuple(thresholds.tolist()),
        width=round(window_seconds * MICROSECONDS),
        window=table["window"].to_numpy(),
        src=src,
        dst=dst,
        score=table["score"].to_numpy(),
        silo=silo.astype(np.int16),
        own_source=table["own_source"].to_numpy(),
        alert=table["alert"].to_numpy(),
        label=np.asarray(table["label"].fill_null(0).to_numpy(), dtype=np.uint8) if labelled else None,
    )


def _codes(table: pa.Table, *columns: str) -> tuple[list[str], list[NDArray[np.int32]]]:
    """The names of the columns once, and each column as numbers of them."""
    chunks = [table[name].cast(_NAMES).chunks for name in columns]
    whole = pa.chunked_array([chunk for part in chunks for chunk in part], _NAMES).unify_dictionaries()
    codes = [np.asarray(chunk.indices, dtype=np.int32) for chunk in whole.chunks]
    names: list[str] = whole.chunk(0).dictionary.to_pylist() if whole.num_chunks else []
    found, start = [], 0
    for part in chunks:
        found.append(np.concatenate([*codes[start : start + len(part)], np.zeros(0, dtype=np.int32)]))
        start += len(part)
    return names, found
