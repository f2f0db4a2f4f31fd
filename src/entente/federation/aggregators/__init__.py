"""How updates become the next model; plug-ins of the group `entente.aggregators`."""

from __future__ import annotations

from entente.config import AggregationOptions
from entente.federation.aggregators.base import NORM_BOUND, Aggregator, Layout
from entente.registry import AGGREGATORS

__all__ = ["available", "build"]


def available() -> dict[str, type[Aggregator]]:
    """Every aggregation rule by name, sorted; those that cannot be imported are left out."""
    return AGGREGATORS.available()


def build(config: AggregationOptions, layout: Layout, norm_bound: float = NORM_BOUND) -> Aggregator:
    """The configured aggregation rule; `norm_bound` is the usual norm of the detector's updates."""
    kind: type[Aggregator] = AGGREGATORS.load(config.rule)
    return kind(config, layout, norm_bound)
