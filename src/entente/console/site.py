"""What the coordinator's page says of a site: who is in, certificates and the audit chain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entente.deployment.audit import read, verify
from entente.deployment.check import SOON, SiteFinding, check
from entente.deployment.guard import REVOKED, read_revoked
from entente.deployment.provision import ISSUED
from entente.deployment.site import Site
from entente.deployment.status import status
from entente.errors import EntenteError

MOST_ENTRIES = 100


@dataclass(frozen=True, slots=True)
class Certificate:
    site: str
    file: str
    subject: str
    until: datetime
    days: int
    revoked: bool = False

    @property
    def level(self) -> str:
        return "error" if self.days < 0 or self.revoked else "warning" if self.days < SOON.days else "ok"


@dataclass(frozen=True, slots=True)
class SiteView:
    """One site, read from its files now."""

    status: dict[str, Any]
    version: str
    silos: tuple[dict[str, Any], ...]  # name, state, seen, since, version
    certificates: tuple[
        Certificate, ...
    ]  # of the kit, and of other sites where the authority's list is at hand
    findings: tuple[SiteFinding, ...]
    audit: dict[str, Any]  # whole, entries, first, last, head, problem, checked


def look_at(kit: Path, now: datetime | None = None) -> SiteView:
    """Everything that can be told without a connection."""
    site, moment = Site.load(kit), now or datetime.now(UTC)
    told = status(site)
    joined = _joined(site)
    members = site.members() or {}
    silos = tuple(
        {
            "name": name,
            "state": state,
            "seen": _when(members.get(name, {}).get("seen")),
            **{field: joined.get(name, {}).get(field) for field in ("since", "version")},
        }
        for name, state in told.get("silos", {}).items()
    )
    return SiteView(
        status=told,
        version=site.kit.version,
        silos=silos,
        certificates=(*_certificates(site, moment), *_issued(site, moment)),
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


def _certificates(site: Site, now: datetime) -> Iterator[Certificate]:
    """Those in the site's own kit."""
    from cryptography import x509

    kit = site.path
    for path in sorted(
        (*kit.glob("startup/*.crt"), kit / "startup" / "rootCA.pem", *kit.glob("operator/**/*.crt"))
    ):
        try:
            found = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError):
            continue
        until = found.not_valid_after_utc
        yield Certificate(
            site.name, str(path.relative_to(kit)), _subject(found.subject), until, (until - now).days
        )


def _subject(name: Any) -> str:
    """Common name and organisation; what else FLARE writes into a subject is its own affair."""
    from cryptography.x509.oid import NameOID

    wanted = (("CN", NameOID.COMMON_NAME), ("O", NameOID.ORGANIZATION_NAME))
    return ", ".join(
        f"{key}={part.value}" for key, oid in wanted for part in name.get_attributes_for_oid(oid)
    )


def _issued(site: Site, now: datetime) -> list[Certificate]:
    """Other sites' latest certificates, by the list of the authority, where that is beside the kit."""
    try:
        lines = (site.path.parents[1] / "authority" / ISSUED).read_text(encoding="utf-8").splitlines()
        revoked = read_revoked(site.path / REVOKED)
        found = {}
        for entry in map(json.loads, lines):
            until = datetime.fromisoformat(entry["until"])
            gone = entry["serial"] in revoked.serials or entry["site"] in revoked.names
            certificate = Certificate(
                entry["site"], entry["file"], f"CN={entry['site']}", until, (until - now).days, gone
            )
            found[entry["site"], entry["file"]] = certificate  # a renewed one stands later
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [one for (owner, _), one in sorted(found.items()) if owner != site.name]


def _joined(site: Site) -> dict[str, dict[str, str]]:
    """Silo -> when it joined last (`since`) and the version that it told last, as the audit has it."""
    found: dict[str, dict[str, str]] = {}
    if not site.audit.path.is_file():
        return found
    wanted = {"silo-joined": ("since", "time"), "silo-version": ("version", "version")}
    try:
        for _, entry in read(site.audit.path):
            if entry["event"] in wanted:
                name, field = wanted[entry["event"]]
                found.setdefault(str(entry.get("silo")), {})[name] = str(entry.get(field))
    except EntenteError:
        return found
    return found


def _when(seconds: Any) -> str | None:
    if not isinstance(seconds, int | float) or not seconds:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
