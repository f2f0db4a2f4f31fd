"""ArcSight Common Event Format, one event per line."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from entente import __version__
from entente.detection.addresses import address
from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink, headline
from entente.text import visible

SEVERITY = {"low": 3, "medium": 5, "high": 8, "critical": 10}
DIRECTION = {"inbound": "0", "outbound": "1"}


class CommonEventFormat(Sink):
    name = "cef"
    summary = "ArcSight Common Event Format, one event per line"
    suffix = ".cef"

    def render(self, alerts: Sequence[Alert]) -> str:
        return "".join(_event(alert) + "\n" for alert in alerts)


def _event(alert: Alert) -> str:
    title = "Unexpected connection"
    header = (
        "Entente",
        "Entente",
        __version__,
        "unexpected-connection",
        title,
        str(SEVERITY[alert.severity]),
    )
    fields = {
        "externalId": alert.id,
        "start": str(alert.time // 1000),
        "end": str(alert.until // 1000),
        **_endpoint(alert.src, "shost", "src", "c6a2", "Source IPv6 Address"),
        **_endpoint(alert.dst, "dhost", "dst", "c6a3", "Destination IPv6 Address"),
        "cfp1": repr(alert.score),
        "cfp1Label": "score",
        "cfp2": repr(alert.threshold),
        "cfp2Label": "threshold",
        "cs1": alert.silo,
        "cs1Label": "silo",
        "cs3": alert.incident,
        "cs3Label": "incident" if alert.incident else None,
        "suser": alert.users[0] if alert.users else None,
        "dpt": str(alert.ports[0]) if alert.ports else None,
        "cnt": None if alert.events is None else str(alert.events),
        "deviceDirection": DIRECTION.get(alert.direction),
        "act": alert.kinds[0] if alert.kinds else None,
        "cs2": alert.technique,
        "cs2Label": "technique" if alert.technique else None,
        "reason": alert.technique_reason,
        "app": alert.service,
        "cs4": f"{alert.source_role or 'new'} to {alert.target_role or 'new'}",
        "cs4Label": "roles",
        "cs5": ", ".join(row.place for row in alert.evidence if row.place),
        "cs5Label": "evidence" if any(row.place for row in alert.evidence) else None,
        "cs6": " after ".join(name for name in (alert.model, alert.model_before) if name),
        "cs6Label": "model" if alert.model or alert.model_before else None,
        "flexString1": "; ".join(alert.elsewhere),
        "flexString1Label": "elsewhere" if alert.elsewhere else None,
        "flexString2": alert.link,
        "flexString2Label": "link" if alert.link else None,
        "msg": "; ".join((headline(alert), *alert.explanation)),
    }
    extension = " ".join(f"{key}={escape_value(value)}" for key, value in fields.items() if value)
    return "|".join(("CEF:0", *(escape_header(part) for part in header), extension))


def _endpoint(host: str, name: str, v4: str, v6: str, label: str) -> dict[str, str]:
    found = address(host)
    if found is None:
        return {name: host}
    return {v4: host} if isinstance(found, IPv4Address) else {v6: host, f"{v6}Label": label}


def escape_header(text: str) -> str:
    """Pipe and backslash are escaped; a header has no escape for a line break, so it becomes a space."""
    flat = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    return visible(flat).replace("\\", "\\\\").replace("|", "\\|")


def escape_value(text: str) -> str:
    """Backslash, equals sign and line breaks are escaped; a pipe needs none."""
    shown = visible(text, keep="\r\n").replace("\\", "\\\\")
    return shown.replace("=", "\\=").replace("\n", "\\n").replace("\r", "\\r")
