"""What every sink is: alerts in, the text of one file out."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from entente.artifacts import write_text
from entente.detection.alerts import Alert

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sink(ABC):
    """One output format. The same alerts always give the same bytes.

    >>> class Pairs(entente.Sink):
    ...     name, summary, suffix = "pairs", "Source and target, a line each.", ".txt"
    ...
    ...     def render(self, alerts):
    ...         return "".join(f"{alert.src!a} {alert.dst!a}\\n" for alert in alerts)
    >>> Pairs().render(entente.load_run("run").alerts[:0])
    ''
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    suffix: ClassVar[str]

    @abstractmethod
    def render(self, alerts: Sequence[Alert]) -> str:
        """The whole file. Host and user names are hostile input: nothing in them may break the format."""

    def write(self, path: Path, alerts: Sequence[Alert]) -> None:
        """Write the file whole or not at all."""
        write_text(path, self.render(alerts))


def json_lines(rows: Iterable[Any]) -> str:
    """One object per line, ASCII only, so that no name can hold a line break."""
    return "".join(json.dumps(row, sort_keys=True, allow_nan=False) + "\n" for row in rows)


def timestamp(microseconds: int) -> str:
    """RFC 3339 in UTC with milliseconds; logs with a relative clock begin in 1970."""
    moment = EPOCH + timedelta(microseconds=microseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def headline(alert: Alert) -> str:
    return f"Unexpected connection from {alert.src} to {alert.dst}"
