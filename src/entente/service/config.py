"""The service's configuration file (TOML): which run, which sources, which outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from entente.config import Section, read_toml
from entente.errors import ConfigError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PATHS = ("run", "folder", "mailbox", "edges")
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class SourceConfig(Section):
    """One source of log lines. Further keys are the source type's own; see `entente sources`."""

    name: str = Field(pattern=NAME)
    """Name in status and errors; its position is stored under it."""
    type: str
    """spool, stdin, syslog, kafka or opensearch."""
    format: str = "auto"
    """Log format; see `entente formats`."""
    timezone: str | None = None
    """Zone of times that name none (Europe/Lisbon)."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The keys of the source type."""


class OutputConfig(Section):
    """One receiver of alerts. Further keys are the output type's own; see `entente outputs`."""

    name: str = Field(pattern=NAME)
    """Name in status and errors; its queue is kept under it."""
    type: str
    """file, webhook, elastic, splunk, syslog or kafka."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The keys of the output type."""


class Watch(Section):
    """The whole file."""

    run: Path
    """Run folder with the trained model, as `entente train` or a federation leaves it."""
    folder: Path
    """The service's own folder: database, open windows, state. Back it up as a whole."""
    silo: str | None = None
    """Which silo of the run this is; all of them by default."""
    mailbox: Path | None = None
    """Packets of the exchange with silos elsewhere (KIT/exchange), where the federation has agreed on one."""
    lateness: float = Field(default=300.0, ge=0)
    """Seconds that a window stays open for events that are written late."""
    ahead: float = Field(default=3600.0, gt=0)
    """Seconds that an event may be ahead of this machine's clock; beyond them it is set aside."""
    silent: float = Field(default=900.0, gt=0)
    """Seconds after which a source that brings nothing is named, and holds no window open any more."""
    feedback: bool = True
    """Whether alerts that are closed as benign keep such ones of the same source from being raised."""
    pending: int = Field(default=5_000_000, ge=1000)
    """Events that may wait for their window to close; beyond them only the source furthest behind is read."""
    port: int = Field(default=9466, ge=0, le=65535)
    """Loopback port of /healthz and /metrics; 0 = none."""
    edges: Path | None = None
    """An edge directory that `entente edges` extends, in the place of sources."""
    sources: tuple[SourceConfig, ...] = ()
    outputs: tuple[OutputConfig, ...] = ()

    @field_validator("sources", mode="before")
    @classmethod
    def _source_keys(cls, rows: Any) -> Any:
        return _own_keys(rows, SourceConfig)

    @field_validator("outputs", mode="before")
    @classmethod
    def _output_keys(cls, rows: Any) -> Any:
        return _own_keys(rows, OutputConfig)

    @field_validator("sources", "outputs")
    @classmethod
    def _names_differ(cls, rows: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [row.name for row in rows]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two of them are called {twice!r}")
        return rows

    @model_validator(mode="after")
    def _something_to_read(self) -> Watch:
        if bool(self.sources) == (self.edges is not None):
            raise ValueError("give either sources or edges")
        return self


def load_watch(path: Path) -> Watch:
    """Read the file; relative paths are relative to it."""
    table = read_toml(path)
    try:
        config = Watch.model_validate(table)
    except ValidationError as error:
        raise ConfigError(_problems(error), where=path, remedy="docs/service.md lists every key.") from error
    base = path.parent.resolve()
    paths = {name: base / value for name in PATHS if (value := getattr(config, name)) is not None}
    return config.model_copy(update=paths)


def build_options(model: type[Section], options: dict[str, Any], where: str, base: Path) -> Any:
    """A plug-in's own options; its relative paths are relative to the configuration file."""
    try:
        built = model.model_validate(options)
    except ValidationError as error:
        raise ConfigError(
            _problems(error), where=where, remedy=f"Keys are: {', '.join(model.model_fields) or 'none'}."
        ) from error
    paths = {n: base / v for n in model.model_fields if isinstance(v := getattr(built, n), Path)}
    return built.model_copy(update=paths)


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())


def _own_keys(rows: Any, model: type[Section]) -> Any:
    """Put the keys that are not the section's own under `options`: they belong to the plug-in it names."""
    if not isinstance(rows, list | tuple):
        return rows
    return [
        {key: value for key, value in row.items() if key in model.model_fields}
        | {"options": {key: value for key, value in row.items() if key not in model.model_fields}}
        if isinstance(row, dict)
        else row
        for row in rows
    ]
