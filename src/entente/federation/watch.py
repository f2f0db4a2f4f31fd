"""Warns the coordinator of silos that stand out, by name and since when.

It looks only at what every round records anyway: norms, validation, refusals. It never changes the
aggregation; a warning is for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entente.federation.records import RoundRecord, SiloRecord

FEWEST = 3
"""Silos that must have contributed for one of them to stand out."""
FEWEST_EDGES = 30
"""Validation edges below which a silo's AP and AUC are too uncertain to say anything."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One way to stand out, and for how many rounds in a row before it is worth a word."""

    name: str
    patience: int


NORM = Sign("norm", 2)
IDLE = Sign("idle", 3)
DRIFT = Sign("drift", 3)
PERFECT = Sign("perfect", 2)
REFUSED = Sign("refused", 2)
PATIENCE = {sign.name: sign.patience for sign in (NORM, IDLE, DRIFT, PERFECT, REFUSED)}


class SiloWatch:
    """Fed one round's record after the other; `observe` returns the warnings that hold in that round.

    `loud`, `idle`: times the median norm of the other silos, which is long where a silo has many hosts.
    `shared`: the same in the weights that all silos train, where honest silos of any size go about as far.
    `drift`: validation AUC below the silo's own best: the global model gets worse where it lives, whoever is
    to blame. `perfect`: AP and AUC that no model has on held-out edges.
    """

    def __init__(
        self,
        loud: float = 5.0,
        idle: float = 0.05,
        shared: float = 3.0,
        drift: float = 0.3,
        perfect: float = 0.9999,
    ) -> None:
        self.loud = loud
        self.idle = idle
        self.shared = shared
        self.drift = drift
        self.perfect = perfect
        self._since: dict[tuple[str, str], int] = {}
        self._best: dict[str, float] = {}  # AUC by silo

    def observe(self, record: RoundRecord) -> list[str]:
        if not record.trained:
            return []
        current = record.round
        found = {(name, REFUSED.name): f"refused ({why})" for name, why in record.refused.items()}
        heard = record.accepted
        for name, silo in heard.items():
            found |= {(name, sign): text for sign, text in self._judge_validation(name, silo)}
            if len(heard) >= FEWEST:
                others = [other for key, other in heard.items() if key != name]
                found |= {(name, sign): text for sign, text in self._compare(silo, others)}
        self._since = {key: self._since.get(key, current) for key in found}
        return [
            f"{silo}: {text} since round {self._since[silo, sign]}"
            for (silo, sign), text in sorted(found.items())
            if current - self._since[silo, sign] + 1 >= PATIENCE[sign]
        ]

    def _compare(self, silo: SiloRecord, others: list[SiloRecord]) -> list[tuple[str, str]]:
        whole, shared = (
            _times_typical(part(silo), [part(other) for other in others]) for part in (_norm, _shared)
        )
        signs = []
        if whole > self.loud:
            signs.append((NORM.name, f"update norm {whole:.3g}× the median"))
        elif shared > self.shared:
            signs.append((NORM.name, f"update norm {shared:.3g}× the median in the weights all share"))
        if whole < self.idle:
            signs.append((IDLE.name, f"hardly changes the model (norm {whole:.2g}× the median)"))
        elif shared < self.idle:
            signs.append((IDLE.name, f"hardly changes the weights all share ({shared:.2g}× the median)"))
        return signs

    def _judge_validation(self, name: str, silo: SiloRecord) -> list[tuple[str, str]]:
        ap, auc = silo.ap, silo.auc
        if ap is None or auc is None or (silo.edges or 0) < FEWEST_EDGES:
            return []
        best = self._best[name] = max(auc, self._best.get(name, 0.0))
        signs = []
        if auc < best - self.drift:
            signs.append((DRIFT.name, f"validation AUC fell to {auc:.2f} from {best:.2f}"))
        if min(auc, ap) > self.perfect:
            signs.append((PERFECT.name, "claims perfect validation"))
        return signs

    def state(self) -> dict[str, Any]:
        return {
            "since": [[silo, sign, since] for (silo, sign), since in sorted(self._since.items())],
            "best": dict(sorted(self._best.items())),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._since = {(str(silo), str(sign)): int(since) for silo, sign, since in state["since"]}
        self._best = {str(silo): float(best) for silo, best in state["best"].items()}


def _norm(silo: SiloRecord) -> float:
    return silo.norm or 0.0


def _shared(silo: SiloRecord) -> float:
    return silo.shared or 0.0


def _times_typical(own: float, others: list[float]) -> float:
    """How many times the others' median; between the two in the middle of an even number it is once.

    Their mean would not do: of two others one may be a cheat, whose long update makes the honest look idle.
    """
    ordered = sorted(others)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if low <= own <= high:
        return 1.0
    typical = low if own < low else high
    return own / typical if typical > 0 else float("inf")
