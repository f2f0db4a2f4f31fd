"""A baseline: an edge scores high when its source talks to more targets than it used to."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from entente.config import DetectorOptions
from entente.detectors.baselines.counts import Counts, Float64, PairWindow
from entente.detectors.baselines.pairs import PairBaseline


class BusySourceOptions(DetectorOptions):
    """Settings of busy-source."""

    name: str = "busy-source"
    usual: float = Field(default=1.0, gt=0)
    """Events per window that every source is allowed."""


class BusySource(PairBaseline):
    """Targets of the source in this window, over its events per window so far."""

    name = "busy-source"
    summary = "The more targets a source has beyond its usual activity, the higher."
    Options: ClassVar[type[DetectorOptions]] = BusySourceOptions
    config: BusySourceOptions

    def _scores(self, counts: Counts, window: PairWindow, edges: PairWindow, tie: Float64) -> Float64:
        targets = np.bincount(np.unique(edges.keys) >> 32, minlength=len(counts.node["sources"]))
        usual = self.config.usual + counts.node["source_events"] / max(1, counts.windows)
        scores: Float64 = targets[window.src] / usual[window.src] + tie
        return scores
