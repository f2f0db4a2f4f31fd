"""Edges put together by source: an attacker's edges are not independent, its host is what one looks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from entente.detection.ranking import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class SourceScores:
    """One row per source and period: its highest score, whether it was malicious or raised an alert."""

    score: Floats
    truth: Bools
    alert: Bools
    period: Ints
    source: Ints


def source_codes(sources: ArrayLike) -> Ints:
    """A number for every source; numbers stay as they are."""
    given = np.asarray(sources)
    if given.dtype.kind in "iu":
        return given.astype(np.int64, copy=False)
    codes: NDArray[np.int32] = pa.array(given).dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64)


def by_source(score: Floats, truth: Bools, alert: Bools, period: Ints, source: Ints) -> SourceScores:
    """The edges of one source in one period as one row."""
    if not len(score):
        return SourceScores(score, truth, alert, period, source)
    low = int(source.min())
    key = (period - period.min()) * (int(source.max()) - low + 1) + (source - low)
    order = np.argsort(key)
    starts = np.flatnonzero(np.diff(key[order], prepend=key[order[0]] - 1))
    return SourceScores(
        np.maximum.reduceat(score[order], starts),
        np.logical_or.reduceat(truth[order], starts),
        np.logical_or.reduceat(alert[order], starts),
        period[order[starts]],
        source[order[starts]],
    )
