"""What the coordinator's page says of a site: who is in, certificates and the audit chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entente.deployment.audit import read, verify
from entente.deployment.check import SOON, SiteFinding, check
from entente.deployment.site import Site
from entente.deployment.status import status
from entente.errors import EntenteError

MOST_ENTRIES = 100


@dataclass(frozen=True, slots=True)
class Certificate:
    file: str
    subject: str
    until: datetime
    days: int

    @property
    def level(self) -> str:
        return "error" if self.days < 0 else "warning" if self.days < SOON.days else "ok"


@dataclass(frozen=True, slots=True)
class SiteView:
    """One site, read from its files now."""

    status: dict[str, Any]
    version: str
    silos: tuple[dict[str, Any], ...]  # name, state, seen, since
    certificates: tuple[Certificate, ...]
    findings: tuple[SiteFinding, ...]
    audit: dict[str, Any]  # whole, entries, first, last, head, problem, checked


def look_at(kit: Path, now: datetime | None = None) -> SiteView:
    """Everything that can be told without a connection."""
    site, moment = Site.load(kit), now or datetime.now(UTC)
    told = status(site)
    since = _since(site)
    members = site.members() or {}
    silos = tuple(
        {
            "name": name,
            "state": state,
            "seen": _when(members.get(name, {}).get("seen")),
            "since": since.get(name),
        }
        for name, state in told.get("silos", {}).items()
    )
    return SiteView(
        status=told,
        version=site.kit.version,
        silos=silos,
        certificates=tuple(_certificates(site.path, moment)),
        findings=tuple(check(site, moment)),
        audit=chain(site.audit.path, moment),
    )


def chain(path: Path, now: datetime) -> dict[str, Any]:
    """The state of an audit chain, checked now from its first entry to its last."""
    told: dict[str, Any] = {"checked": f"{now:%Y-%m-%d %H:%M} UTC", "problem": None, "entries": 0}
    if not path.is_file():
        return told | {"problem": "There is no entry yet."}
    try:
        summary = verify(path)
    except EntenteError as error:
        return told | {"problem": str(error)}
    return told | {
        "entries": summary.entries,
        "first": summary.first,
        "last": summary.last,
        "head": summary.head,
        "events": dict(sorted(summary.events.items(), key=lambda item: -item[1])),
    }


def latest(path: Path, most: int = MOST_ENTRIES) -> list[dict[str, Any]]:
    """The last entries of an audit trail, newest first."""
    if not path.is_file():
        return []
    try:
        entries = [entry for _, entry in read(path)]
    except EntenteError:
        return []
    shown = ("number", "time", "event")
    hidden = (*shown, "hash", "previous", "site")
    return [
        {
            **{name: entry.get(name) for name in shown},
            "detail": {k: v for k, v in entry.items() if k not in hidden and v is not None},
        }
        for entry in reversed(entries[-most:])
    ]


def _certificates(kit: Path, now: datetime) -> Iterator[Certificate]:
    from cryptography import x509

    for path in sorted(
        (*kit.glob("startup/*.crt"), kit / "startup" / "rootCA.pem", *kit.glob("operator/**/*.crt"))
    ):
        try:
            found = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError):
            continue
        until = found.not_valid_after_utc
        yield Certificate(
            str(path.relative_to(kit)), found.subject.rfc4514_string(), until, (until - now).days
        )


def _since(site: Site) -> dict[str, str]:
    """Silo -> when it joined last, as the audit has it."""
    found: dict[str, str] = {}
    if not site.audit.path.is_file():
        return found
    try:
        for _, entry in read(site.audit.path):
            if entry["event"] == "silo-joined":
                found[str(entry.get("silo"))] = str(entry["time"])
    except EntenteError:
        return found
    return found


def _when(seconds: Any) -> str | None:
    if not isinstance(seconds, int | float) or not seconds:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
