"""The paper's own numbers (percent), to stand beside ours.

They belong to the original data sets; beside a simulated company or a replay they would mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from entente_lab.bench.published.tables import rows


class Published(NamedTuple):
    ap: float
    auc: float

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Published:
        return cls(float(row["ap"]), float(row["auc"]))


EFFECTIVENESS: Mapping[tuple[str, str, str, int], Published] = {
    (row["dataset"], row["detector"], row["method"], int(row["k"])): Published.of(row)
    for row in rows("effectiveness")
}
"""(data set, detector, method, K) -> AP and AUC."""

AUGMENTATION: Mapping[tuple[str, bool], Published] = {
    (row["dataset"], row["augmentation"] == "1"): Published.of(row) for row in rows("augmentation")
}
"""(data set, 1-hop augmentation) -> AP and AUC; OpTC with K = 3, LANL with K = 4."""

REFERENCE_GRAPH: Mapping[tuple[str, bool, int], Published] = {
    (row["dataset"], row["reference_graph"] == "1", int(row["round"])): Published.of(row)
    for row in rows("reference_graph")
}
"""(data set, reference-graph weights, round) -> AP and AUC; OpTC with K = 3, LANL with K = 4."""


class Scale(NamedTuple):
    silos: int
    seconds: float
    ap: float
    auc: float
    cpu_mb: float


SCALE: Mapping[int, Scale] = {
    int(row["k"]): Scale(
        int(row["silos"]), *(float(row[name]) for name in ("seconds", "ap", "auc", "cpu_mb"))
    )
    for row in rows("scale")
}
"""K -> silos that were not empty, training seconds, AP, AUC and memory per silo; LANL with Euler."""


def published(dataset: str, detector: str, method: str, k: int) -> Published | None:
    """The paper's AP and AUC in percent, where it has them for this very data set."""
    return EFFECTIVENESS.get((dataset, detector, method, k))
