"""Every setting with its default and sentence, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from entente.config.experiment import Experiment
from entente.config.files import literal
from entente.config.sections import AggregationOptions, DetectorOptions, Section
from entente.registry import AGGREGATORS, DETECTORS, Registry

CHOSEN: dict[type[Section], tuple[Registry, str]] = {
    DetectorOptions: (DETECTORS, "name"),
    AggregationOptions: (AGGREGATORS, "rule"),
}
"""Sections that a plug-in defines, and the key that names the plug-in."""


@dataclass(frozen=True, slots=True)
class Described:
    """One section with its own settings; `plugin` is the plug-in that it belongs to, if any."""

    path: str
    plugin: str
    text: str
    fields: dict[str, FieldInfo]


def settings_reference(package: str = "") -> str:
    """Every setting with its default and sentence; docs/configuration.md is this text for "entente".

    `package` limits plug-ins to those whose code is in that package.
    """
    lines = ["# Settings of an experiment file", "", "`entente train --settings` prints this page.", ""]
    for section in described(package):
        lines += [_heading(section), "", section.text, ""]
        if section.fields:
            lines += ["| key | default | meaning |", "|---|---|---|"]
            lines += [_row(name, field) for name, field in section.fields.items()]
            lines.append("")
    return "\n".join(lines)


def described(package: str = "") -> Iterator[Described]:
    """The sections of an experiment, with those of every installed plug-in."""
    yield from _described(Experiment, "", package)


def _described(model: type[Section], path: str, package: str) -> Iterator[Described]:
    inner = {name: part for name, field in model.model_fields.items() for part in _sections(field)}
    own = {name: field for name, field in model.model_fields.items() if name not in inner}
    yield Described(path, "", _text(model), own)
    for name, part in inner.items():
        below = f"{path}.{name}" if path else name
        if part in CHOSEN:
            yield from _plugins(part, below, package)
        else:
            yield from _described(part, below, package)


def _plugins(base: type[Section], path: str, package: str) -> Iterator[Described]:
    registry, key = CHOSEN[base]
    known = {
        name: plugin
        for name, plugin in registry.available().items()
        if not package or plugin.__module__.partition(".")[0] == package
    }
    names = ", ".join(f"`{name}`" for name in known)
    yield Described(path, "", f"{_text(base)} One of {names}.", dict(base.model_fields))
    for name, plugin in known.items():
        fields = {n: field for n, field in plugin.Options.model_fields.items() if n != key}
        if fields:
            yield Described(path, f'{key} = "{name}"', plugin.summary, fields)


def _heading(section: Described) -> str:
    if section.plugin:
        return f"### `[{section.path}]` with `{section.plugin}`"
    return f"## `[{section.path}]`" if section.path else "## Top level"


def _row(name: str, field: FieldInfo) -> str:
    default = "" if field.is_required() else f"`{literal(field.get_default())}`"
    allowed = [value for part in _literals(field.annotation) for value in part]
    choice = f" One of {', '.join(f'`{value}`' for value in allowed)}." if len(allowed) > 1 else ""
    return f"| `{name}` | {default} | {' '.join((field.description or '').split())}{choice} |"


def _text(model: type[Section]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0].partition(". ")[0].rstrip(".") + "."


def _sections(field: FieldInfo) -> list[type[Section]]:
    parts = (field.annotation, *get_args(field.annotation))
    return [part for part in parts if isinstance(part, type) and issubclass(part, Section)]


def _literals(annotation: Any) -> list[tuple[Any, ...]]:
    if get_origin(annotation) is Literal:
        return [get_args(annotation)]
    return [found for part in get_args(annotation) for found in _literals(part)]
