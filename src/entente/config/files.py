"""An experiment file (TOML) <-> the validated experiment."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from entente.config.experiment import Experiment
from entente.errors import ConfigError


def load_experiment(path: Path, overrides: tuple[str, ...] = ()) -> Experiment:
    """Read an experiment file and apply `path=value` overrides (`federation.rounds=5`)."""
    table = read_toml(path)
    for override in overrides:
        _apply(table, override)
    experiment = parse_experiment(table, path)
    # Absolute, so that the copy in a run folder still names the same files.
    return resolve_paths(experiment, path.parent.resolve())


def read_toml(path: Path, remedy: str = "Give the path of a TOML file.") -> dict[str, Any]:
    """A TOML file as a table; ConfigError for anything else, whatever its bytes."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=path, remedy=remedy) from error
    except UnicodeDecodeError as error:
        raise ConfigError("is not a text file (UTF-8)", where=path) from error
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise ConfigError(f"is not valid TOML: {error}", where=path) from error
    except RecursionError as error:
        raise ConfigError("is not valid TOML: it is nested too deeply", where=path) from error


def parse_experiment(table: dict[str, Any], where: str | Path = "experiment") -> Experiment:
    try:
        return Experiment.model_validate(table)
    except ValidationError as error:
        raise ConfigError(
            validation_problems(error), where=where, remedy="`entente train --settings` lists every key."
        ) from error


def validation_problems(error: ValidationError) -> str:
    """Every problem of a file in one line, each with the key it is about."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'file'}: {problem['msg']}"
        for problem in error.errors()
    )


def resolve_paths(experiment: Experiment, base: Path) -> Experiment:
    """Make relative paths relative to the experiment file."""
    data = experiment.data.model_copy(
        update={
            "events": base / experiment.data.events,
            "silos": None if experiment.data.silos is None else base / experiment.data.silos,
        }
    )
    given = {"secret": experiment.graph.secret, "roles": experiment.graph.roles}
    graph = experiment.graph.model_copy(
        update={name: None if path is None else base / path for name, path in given.items()}
    )
    return experiment.model_copy(update={"data": data, "graph": graph})


def _apply(table: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    if not separator:
        raise ConfigError(
            f"--set {override!r} is not path=value", remedy="Example: --set federation.rounds=5"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    *parents, last = path.strip().split(".")
    for part in parents:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {part!r} is not a section")
    table[last] = value


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as TOML that `load_experiment` reads back."""
    plain, lines = experiment.model_dump(mode="json", exclude_none=True), []

    def write(table: dict[str, Any], prefix: str) -> None:
        scalars = {k: v for k, v in table.items() if not isinstance(v, dict)}
        if prefix and (scalars or not table):
            lines.append(f"\n[{prefix}]")
        lines.extend(f"{key} = {literal(value)}" for key, value in scalars.items())
        for key, value in table.items():
            if isinstance(value, dict):
                write(value, f"{prefix}.{key}" if prefix else key)

    write(plain, "")
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but TOML wants one more.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if value is None:
        return "none"
    if isinstance(value, Path):
        return literal(str(value))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return repr(value)
