"""Plug-ins by name, found through the entry points of installed packages.

A package offers a plug-in by naming its class in its metadata, ours as any other:

    [project.entry-points."entente.detectors"]
    my-detector = "my_package:MyDetector"

Names are known without importing anything; a class is imported when it is asked for.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from entente.errors import PluginError, UsageError


class Registry:
    """The plug-ins of one entry-point group. `contract` names the base class that each must have."""

    def __init__(self, group: str, kind: str, contract: str) -> None:
        self.group = group
        self.kind = kind
        self._contract = contract
        self._loaded: dict[str, type[Any]] = {}

    def names(self) -> tuple[str, ...]:
        """Every name on offer, sorted, whether or not its class can be imported."""
        return tuple(sorted(self._found))

    def package(self, name: str) -> str:
        """The installed package that offers a plug-in."""
        found = self._found[name][0].dist
        return found.name if found is not None else "unknown package"

    def load(self, name: str) -> type[Any]:
        """The class of that name; UsageError if nobody offers it, PluginError if it cannot be used."""
        if name not in self._loaded:
            if name not in self._found:
                raise UsageError(f"there is no {self.kind} {name!r}", remedy=suggestion(name, self.names()))
            self._loaded[name] = self._import(name)
        return self._loaded[name]

    def offer(self, plugin: type[Any]) -> None:
        """Let this process load a class by its name without an entry point; it is not listed."""
        problem = self._problem(plugin, str(getattr(plugin, "name", "")))
        if problem is not None:
            raise PluginError(f"{plugin.__name__} {problem}")
        self._loaded[plugin.name] = plugin

    def available(self) -> dict[str, type[Any]]:
        """Every class that can be used, by name, sorted; broken plug-ins are left out."""
        found = {}
        for name in self.names():
            try:
                found[name] = self.load(name)
            except PluginError:
                continue  # `broken` tells
        return found

    def broken(self) -> dict[str, PluginError]:
        """Every plug-in that cannot be used, and why."""
        found = {}
        for name in self.names():
            try:
                self.load(name)
            except PluginError as error:
                found[name] = error
        return found

    @cached_property
    def _found(self) -> Mapping[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            same = found.setdefault(point.name, [])
            if all(other.value != point.value for other in same):
                same.append(point)
        return found

    def _import(self, name: str) -> type[Any]:
        points = self._found[name]
        if len(points) > 1:
            raise PluginError(
                f"two packages offer the {self.kind} {name!r}: {', '.join(p.value for p in points)}",
                remedy="Uninstall one of them.",
            )
        where = f"{self.kind} {name!r} ({points[0].value} of {self.package(name)})"
        remedy = f"Repair or uninstall {self.package(name)}; other plug-ins are not affected."
        try:
            found = points[0].load()
        except Exception as error:  # whatever a stranger's module raises on import
            raise PluginError(
                f"{where} cannot be imported: {type(error).__name__}: {error}", remedy=remedy
            ) from error
        problem = self._problem(found, name)
        if problem is not None:
            raise PluginError(f"{where} {problem}", remedy=remedy)
        loaded: type[Any] = found
        return loaded

    def _problem(self, found: Any, name: str) -> str | None:
        module, _, attribute = self._contract.partition(":")
        base = getattr(import_module(module), attribute)
        if not (inspect.isclass(found) and issubclass(found, base)):
            return f"is not a subclass of {module}.{attribute}"
        if inspect.isabstract(found):
            missing: frozenset[str] = getattr(found, "__abstractmethods__", frozenset())
            return f"does not define {', '.join(sorted(missing))}"
        if getattr(found, "name", None) != name:
            return f"calls itself {getattr(found, 'name', None)!r}"
        return None if getattr(found, "summary", "") else "has no summary"


def suggestion(word: str, known: Collection[str]) -> str:
    """What to use instead of an unknown word: the nearest known one, or all of them."""
    if not known:
        return "None is installed. After changing entry points install again: pip install -e ."
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(sorted(known))}."


FORMATS = Registry("entente.formats", "log format", "entente.logs.formats.base:Format")
DETECTORS = Registry("entente.detectors", "detector", "entente.detectors.base:Detector")
AGGREGATORS = Registry(
    "entente.aggregators", "aggregation rule", "entente.federation.aggregators.base:Aggregator"
)
SINKS = Registry("entente.sinks", "alert format", "entente.detection.sinks.base:Sink")
SOURCES = Registry("entente.sources", "source", "entente.service.sources.base:Source")
OUTPUTS = Registry("entente.outputs", "output", "entente.service.outputs.base:Output")
TRACKERS = Registry("entente.trackers", "tracker", "entente.runtime.trackers.base:Tracker")
