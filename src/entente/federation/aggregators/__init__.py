"""The aggregation rules. A rule is one file in this folder; `registry` finds it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from entente.config import Aggregation
from entente.errors import ConfigError
from entente.federation.aggregators.base import Aggregator, Layout

BOUNDS = {"euler": 5.0, "jbeil": 70.0}
"""The paper's norm bound M by detector, for `bound = "auto"`."""


def registry() -> dict[str, type[Aggregator]]:
    """Every rule by name, sorted."""
    rules: dict[str, type[Aggregator]] = {}
    for found in iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Aggregator)
                and value.__module__ == module.__name__
                and "name" in vars(value)
            ):
                rules[value.name] = value
    return dict(sorted(rules.items()))


def build(config: Aggregation, layout: Layout, detector: str = "euler") -> Aggregator:
    """The configured rule, its norm bound resolved for the detector."""
    rules = registry()
    if config.rule not in rules:
        raise ConfigError(
            f"unknown aggregation rule {config.rule!r}", remedy=f"Known rules: {', '.join(rules)}."
        )
    if config.bound == "auto":
        config = config.model_copy(update={"bound": BOUNDS.get(detector, BOUNDS["euler"])})
    elif config.bound <= 0:
        raise ConfigError(f"norm bound {config.bound} is not above 0", where="federation.aggregation.bound")
    return rules[config.rule](config, layout)
