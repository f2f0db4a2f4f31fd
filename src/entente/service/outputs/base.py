"""Where alerts go: every output takes a batch in order and says what became of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from entente.config import Section
from entente.detection.alerts import Alert


class Unreachable(Exception):  # noqa: N818 - the other side's state, not a fault of ours
    """Nothing was taken, or nobody can say what was: the whole batch is tried again later.

    An alert has the same id each time, so a receiver that looks at it keeps none twice.
    """


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch."""

    taken: int
    """So many of the batch, from its first on, need not be sent again."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Alert id -> why the other side will never take it; these count as taken."""
    mark: str = ""
    """What the output wants to be told before its next batch; stored together with the delivery. One that
    takes nothing and gives a new mark is asked again at once."""


class Output(ABC):
    """One receiver of the service's alerts, by an entry point `entente.outputs`.

    >>> from entente.registry import OUTPUTS
    >>> issubclass(OUTPUTS.load("file"), entente.Output)
    True
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[Section]]

    def __init__(self, options: Any, where: str) -> None:
        """`where` names the output's section of the configuration, for errors."""
        self.options = options
        self.where = where

    @abstractmethod
    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        """Hand over the batch; Unreachable where it has to be tried again."""

    def close(self) -> None:  # noqa: B027 - optional
        """Let go of connections."""
