"""The paper's attack and defence tables (percent), to stand beside ours.

They belong to the original data sets and to the authors' threshold; read them for their shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from entente_lab.bench.published.tables import number, rows


class Attacked(NamedTuple):
    """One row. None: the paper's run ended in NaN, or it prints nothing."""

    rule: str
    setting: str
    ap: float | None
    auc: float | None
    sr: float | None
    epm: int | None


def _tables() -> dict[str, tuple[Attacked, ...]]:
    found: dict[str, tuple[Attacked, ...]] = {}
    for row in rows("attacks"):
        ap, auc, sr = (number(row[name]) for name in ("ap", "auc", "sr"))
        epm = int(row["epm"]) if row["epm"] else None
        line = Attacked(row["rule"], row["setting"], ap, auc, sr, epm)
        found[row["table"]] = (*found.get(row["table"], ()), line)
    return found


TABLES: Mapping[str, tuple[Attacked, ...]] = _tables()
"""Title -> rows."""
