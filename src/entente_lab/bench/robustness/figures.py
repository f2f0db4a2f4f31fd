"""An attacked run beside the clean run of the same rule, seed and data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from entente_lab.bench.cells import Record, Row

Figures = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Figures over honest silos: of the clean run, and of the one that was hit. Empty if it broke down."""

    clean: Figures
    hit: Figures
    broken: bool

    def rise(self, name: str) -> float | None:
        """How much a figure grew."""
        before, after = self.clean.get(name), self.hit.get(name)
        return None if before is None or after is None else after - before

    def fall(self, name: str) -> float | None:
        grown = self.rise(name)
        return None if grown is None else -grown

    def share(self, name: str) -> float | None:
        """What is left of a figure; 1 = all of it."""
        before, after = self.clean.get(name), self.hit.get(name)
        return None if not before or after is None else after / before


def aftermath(rows: Iterable[Row], part: Sequence[Row]) -> list[Aftermath]:
    """The runs of `part`, each beside its clean run among `rows`; those without a clean run are left out."""
    clean = {
        (labels["dataset"], labels["rule"], labels["seed"]): record
        for labels, record in rows
        if labels["attack"] == "none" and record.status == "done"
    }
    found = []
    # One run may stand in several parts of the grid; it counts once.
    for labels, record in {record.key: (labels, record) for labels, record in part}.values():
        beside = clean.get((labels["dataset"], labels["rule"], labels["seed"]))
        if beside is None or record.status != "done":
            continue
        view = str(labels["silos"])
        found.append(Aftermath(_view(beside, view), _view(record, view), record.values.get("finite") != 1.0))
    return found


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of what is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _view(record: Record, silos: str) -> Figures:
    found: Figures = record.outcome.get("views", {}).get(silos, {})
    return found
