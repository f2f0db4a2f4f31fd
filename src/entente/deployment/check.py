"""Pre-flight: what would keep a site from working, named before a job starts."""

from __future__ import annotations

import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from entente import __version__
from entente.deployment.audit import verify
from entente.deployment.process import pid_of
from entente.deployment.provision import SECRET
from entente.deployment.require import require_flare
from entente.deployment.site import Site
from entente.errors import EntenteError

SOON = timedelta(days=30)
FREE = 2_000_000_000


@dataclass(frozen=True, slots=True)
class SiteFinding:
    """One thing looked at. `level` is ok, warning or error."""

    what: str
    level: str
    message: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(site: Site, now: datetime | None = None) -> list[SiteFinding]:
    """Everything that can be told without starting the site."""
    moment = now or datetime.now(UTC)
    looks: list[Callable[[], Iterator[SiteFinding]]] = [
        lambda: _version(site),
        lambda: _certificate(site, moment),
        lambda: _clock(site, moment),
        lambda: _files(site),
        lambda: _port(site),
        lambda: _disk(site),
        lambda: _events(site),
        lambda: _audit(site),
    ]
    findings: list[SiteFinding] = []
    for look in looks:
        try:
            findings.extend(look())
        except EntenteError as error:
            findings.append(SiteFinding("config", "error", str(error)))
    return findings


def _version(site: Site) -> Iterator[SiteFinding]:
    flare = require_flare()
    if site.kit.version.split(".")[:2] != __version__.split(".")[:2]:
        yield SiteFinding(
            "version", "error", f"the kit was made by entente {site.kit.version}, installed is {__version__}"
        )
    else:
        yield SiteFinding("version", "ok", f"entente {__version__}, NVIDIA FLARE {flare}")


def _certificate(site: Site, now: datetime) -> Iterator[SiteFinding]:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import NameOID

    side = "server" if site.kit.is_coordinator else "client"
    startup = site.path / "startup"
    try:
        own = x509.load_pem_x509_certificate((startup / f"{side}.crt").read_bytes())
        root = x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes())
        key = load_pem_private_key((startup / f"{side}.key").read_bytes(), password=None)
    except (OSError, ValueError) as error:
        yield SiteFinding("certificate", "error", f"{startup}: certificate or key cannot be read ({error})")
        return
    try:
        own.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        yield SiteFinding(
            "certificate", "error", "the certificate was not issued by this federation's authority"
        )
    if own.public_key() != key.public_key():
        yield SiteFinding("certificate", "error", "the private key does not belong to the certificate")
    subject = str(own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    wanted = site.kit.federation.coordinator.host if site.kit.is_coordinator else site.name
    if subject != wanted:
        yield SiteFinding(
            "certificate", "error", f"the certificate is for {subject!r}, this site is {wanted!r}"
        )
    for owner, certificate in (("certificate", own), ("authority", root)):
        end = certificate.not_valid_after_utc
        if end <= now:
            yield SiteFinding("certificate", "error", f"the {owner} expired on {end:%Y-%m-%d}: renew it")
        elif end - now < SOON:
            yield SiteFinding(
                "certificate", "warning", f"the {owner} expires on {end:%Y-%m-%d}: renew it soon"
            )
        else:
            serial = f" (serial {own.serial_number})" if certificate is own else ""
            yield SiteFinding("certificate", "ok", f"the {owner}{serial} is valid until {end:%Y-%m-%d}")


def _clock(site: Site, now: datetime) -> Iterator[SiteFinding]:
    """A clock before the certificate's own making is certainly wrong."""
    from cryptography import x509

    path = site.path / "startup" / "rootCA.pem"
    try:
        made = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_before_utc
    except (OSError, ValueError):
        return  # said of the certificate
    if now < made - timedelta(minutes=5):
        yield SiteFinding(
            "clock",
            "error",
            f"this machine's clock says {now:%Y-%m-%d %H:%M}, the kit was made {made:%Y-%m-%d}",
        )
    else:
        yield SiteFinding("clock", "ok", f"{now:%Y-%m-%d %H:%M} UTC")


def _files(site: Site) -> Iterator[SiteFinding]:
    """Keys, secret and policy are private, and what must not be here is not."""
    keys = [*(site.path / "startup").glob("*.key"), *(site.path / "operator").rglob("*.key")]
    for path in (*keys, site.path / "local" / SECRET, site.path):
        if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield SiteFinding("config", "error", f"{path} can be read by others: chmod go-rwx")
    has_secret = (site.path / "local" / SECRET).exists()
    if site.kit.is_coordinator and has_secret:
        yield SiteFinding("config", "error", "the coordinator's kit holds the host-hash secret: remove it")
    if not site.kit.is_coordinator and not has_secret:
        yield SiteFinding("config", "error", f"local/{SECRET} is missing: ask whoever made the kits")
    from entente.artifacts import read_json
    from entente.deployment.policy import authorization, coordinator_resources, silo_resources

    wanted = coordinator_resources(site.path) if site.kit.is_coordinator else silo_resources()
    expected = {"resources.json": wanted, "authorization.json": authorization(site.kit.is_coordinator)}
    for name, content in expected.items():
        if read_json(site.path / "local" / name) != content:
            yield SiteFinding("config", "warning", f"local/{name} is not the policy this version writes")
    custom = site.path / "local" / "custom"
    if custom.exists():
        yield SiteFinding("config", "error", f"{custom}: local code would be loaded; remove it")


def _port(site: Site) -> Iterator[SiteFinding]:
    place = site.kit.federation.coordinator
    if site.kit.is_coordinator:
        running = pid_of(site) is not None
        for port in (place.port, place.operator_port):
            free = _can_bind(port)
            if running and free:
                yield SiteFinding("port", "error", f"the coordinator runs but does not listen on port {port}")
            elif not running and not free:
                yield SiteFinding("port", "error", f"port {port} is taken by another process")
            else:
                yield SiteFinding("port", "ok", f"port {port} is {'open' if running else 'free'}")
        return
    try:
        socket.create_connection((place.host, place.port), timeout=5).close()
        yield SiteFinding("port", "ok", f"{place.host}:{place.port} answers")
    except OSError as error:
        yield SiteFinding(
            "port", "warning", f"{place.host}:{place.port} does not answer yet ({error.strerror or error})"
        )


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _disk(site: Site) -> Iterator[SiteFinding]:
    free = shutil.disk_usage(site.path).free
    level = "ok" if free > FREE else "warning" if free > FREE / 10 else "error"
    yield SiteFinding("disk", level, f"{free / 1e9:.1f} GB free beside the kit")


def _events(site: Site) -> Iterator[SiteFinding]:
    if site.kit.is_coordinator or not (site.path / "local" / "site.json").exists():
        return
    own = site.settings()
    folder = Path(own["events"])
    if not folder.is_dir() or not any(folder.iterdir()):
        yield SiteFinding("events", "error", f"{folder} is not an event directory, or is empty")
    else:
        yield SiteFinding("events", "ok", str(folder))


def _audit(site: Site) -> Iterator[SiteFinding]:
    if site.audit.path.exists():
        yield SiteFinding("audit", "ok", f"{verify(site.audit.path).entries} entries, the chain is whole")
