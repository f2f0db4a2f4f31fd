"""Where events come from: every source hands over lines, and the position after them.

A position is whatever JSON value lets the source go on from there. It is stored in the same transaction as
the lines that were read, so that no line is read twice or never, whatever happens in between. Standard
input and syslog cannot go back: what they had received and not handed over when the service dies is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from entente.config import Section

Position = Any
"""JSON value."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of one log."""

    log: str
    """Names the log they belong to: a file, a topic, a peer. One log has one format."""
    head: bytes
    """The log's first lines (its header), where it has begun before these."""
    block: bytes
    """The lines, each ending in a line feed."""
    first: int
    """Number of the first line in its log, from 1; where to look for a bad row."""
    rows: tuple[int, ...] | tuple[str, ...] = ()
    """What the source calls each line, for evidence: an offset in the log, or an id that says it all."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one look at a source brought."""

    lines: tuple[Lines, ...]
    position: Position
    behind: int | None = None
    """Bytes or messages that wait to be read; None where nobody knows."""
    notes: tuple[str, ...] = field(default=())
    """What the operator should know: a file that vanished, one that shrank."""


class Source(ABC):
    """One origin of log lines for the service, by an entry point `entente.sources`.

    >>> from entente.registry import SOURCES
    >>> issubclass(SOURCES.load("spool"), entente.Source)
    True
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[Section]]

    def __init__(self, options: Any, where: str) -> None:
        """`where` names the source's section of the configuration, for errors."""
        self.options = options
        self.where = where

    @abstractmethod
    def read(self, position: Position | None, most: int) -> Batch:
        """About `most` bytes of lines from `position` on (None: from the beginning), without waiting long.

        An empty batch means that there is nothing at present.
        """

    @property
    def finished(self) -> bool:
        """Whether nothing will ever come again (the end of standard input)."""
        return False

    def close(self) -> None:  # noqa: B027 - optional
        """Let go of files and connections."""
