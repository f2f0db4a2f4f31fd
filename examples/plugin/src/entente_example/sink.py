"""A sink: one sentence per alert, for a chat or a ticket."""

from __future__ import annotations

from collections.abc import Sequence

from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink, timestamp


class Sentences(Sink):
    name = "sentences"
    summary = "One sentence per alert."
    suffix = ".txt"

    def render(self, alerts: Sequence[Alert]) -> str:
        return "".join(
            f"{timestamp(alert.time)} {alert.severity}: {_quoted(alert.src)} reached {_quoted(alert.dst)}\n"
            for alert in alerts
        )


def _quoted(name: str) -> str:
    """Names come from logs: whatever is not plain text is escaped, so that none can add a line."""
    return ascii(name)
