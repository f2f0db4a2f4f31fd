"""The checks that every plug-in has to pass; `entente check-plugin NAME` and the tests run them."""

from __future__ import annotations

from entente.contracts.base import Check, Verdict, judge
from entente.errors import UsageError
from entente.registry import AGGREGATORS, DETECTORS, FORMATS, SINKS, Registry, suggestion

__all__ = ["KINDS", "Check", "Verdict", "check_plugin", "find_plugin"]

KINDS: dict[str, Registry] = {
    "detector": DETECTORS,
    "aggregator": AGGREGATORS,
    "format": FORMATS,
    "sink": SINKS,
}


def find_plugin(name: str, kind: str | None = None) -> str:
    """The kind of the plug-in `name`; UsageError where no kind or more than one has it."""
    kinds = [known for known, registry in KINDS.items() if name in registry.names()]
    if kind is not None:
        kinds = [kind] if kind in kinds else []
    if len(kinds) > 1:
        raise UsageError(f"{name!r} is a {' and a '.join(kinds)}", remedy=f"Say which: --kind {kinds[0]}.")
    if not kinds:
        registries = KINDS.values() if kind is None else [KINDS[kind]]
        known = [each for registry in registries for each in registry.names()]
        raise UsageError(f"there is no {kind or 'plug-in'} {name!r}", remedy=suggestion(name, known))
    return kinds[0]


def check_plugin(kind: str, name: str) -> list[Verdict]:
    """Every check of its kind on a plug-in with default options; PluginError if it cannot be loaded."""
    KINDS[kind].load(name)
    if kind == "detector":
        from entente.contracts.detectors import CHECKS as DETECTOR_CHECKS
        from entente.contracts.detectors import DetectorCase

        return judge(DETECTOR_CHECKS, DetectorCase.named(name))
    if kind == "aggregator":
        from entente.contracts.aggregators import CHECKS as AGGREGATOR_CHECKS
        from entente.contracts.aggregators import RoundCase

        return judge(AGGREGATOR_CHECKS, RoundCase.named(name))
    if kind == "format":
        from entente.contracts.formats import CHECKS as FORMAT_CHECKS
        from entente.logs.formats import format_named

        return judge(FORMAT_CHECKS, format_named(name))
    from entente.contracts.sinks import CHECKS as SINK_CHECKS
    from entente.detection.sinks import create

    return judge(SINK_CHECKS, create(name))
