"""The paper's attack and defence tables (percent), typed in, to stand beside ours.

They belong to the original data sets and to the authors' threshold; read them for their shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Attacked(NamedTuple):
    """One row. None: the paper's run ended in NaN, or it prints nothing."""

    rule: str
    setting: str
    ap: float | None
    auc: float | None
    sr: float | None
    epm: int | None


TABLES: Mapping[str, tuple[Attacked, ...]] = {
    "Paper: replay on LANL, K = 4, client 4 cheats": (
        Attacked("Entente", "no attack", 0.72, 97.00, None, None),
        Attacked("Entente", "p 25 %, γ 5", 0.54, 96.96, 9.30, 22),
        Attacked("Entente", "p 50 %, γ 5", 0.56, 96.97, 9.30, 40),
        Attacked("Entente", "p 50 %, γ 25", 0.56, 96.97, 9.30, 40),
        Attacked("Entente", "p 75 %, γ 25", 0.60, 96.99, 9.30, 62),
        Attacked("Entente", "p 100 %, γ 100", 0.55, 96.96, 9.30, 80),
        Attacked("Entente-UB", "p 25 %, γ 5", 0.74, 97.34, 11.4, 22),
        Attacked("Entente-UB", "p 50 %, γ 25", 0.18, 96.23, 40.59, 22),
        Attacked("Entente-UB", "p 100 %, γ 100", None, None, None, 80),
    ),
    "Paper: other clients on LANL, p 100 %, γ 100": (
        Attacked("Entente", "client 1", 0.37, 96.54, 6.60, 80),
        Attacked("Entente", "client 2", 0.53, 96.93, 10.48, 80),
        Attacked("Entente", "client 3", 0.55, 96.96, 8.9, 80),
        Attacked("Entente", "clients 1 and 4", 0.58, 96.90, 7.48, 80),
    ),
    "Paper: replay on OpTC, K = 3, client 3 cheats": (
        Attacked("Entente", "no attack", 83.29, 99.76, None, None),
        Attacked("Entente", "p 10 %, γ 2", 83.70, 99.72, 17.65, 148),
        Attacked("Entente", "p 25 %, γ 5", 83.48, 99.76, 14.61, 374),
        Attacked("Entente", "p 50 %, γ 10", 85.69, 99.78, 13.38, 764),
        Attacked("Entente", "p 100 %, γ 100", 84.91, 99.75, 14.20, 1513),
        Attacked("Entente-UB", "p 10 %, γ 2", 72.94, 99.30, 28.24, 148),
        Attacked("Entente-UB", "p 50 %, γ 5", None, None, None, 764),
        Attacked("Entente-UB", "p 100 %, γ 25", None, None, None, 1513),
    ),
    "Paper: noise against p 100 %, γ 100": (
        Attacked("Entente + weak DP", "LANL, no attack", 0.06, 95.23, None, None),
        Attacked("Entente + CDP", "LANL, no attack", 0.54, 96.36, None, None),
        Attacked("Entente + weak DP", "LANL, attacked", 0.11, 95.21, 2.77, None),
        Attacked("Entente + CDP", "LANL, attacked", 0.54, 96.37, 9.10, None),
        Attacked("Entente + weak DP", "OpTC, no attack", 74.75, 96.66, None, None),
        Attacked("Entente + CDP", "OpTC, no attack", 24.04, 86.94, None, None),
        Attacked("Entente + weak DP", "OpTC, attacked", 74.01, 96.66, 16.25, None),
        Attacked("Entente + CDP", "OpTC, attacked", 24.03, 86.95, 38.66, None),
    ),
}
