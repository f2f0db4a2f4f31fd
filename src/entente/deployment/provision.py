"""Start-up kits: one folder per site with its certificate, its policy and what was agreed.

The authority (certificate authority and host-hash secret) stays where kits are made. A silo's kit
holds the secret; the coordinator's kit does not, and holds the operator's credentials instead.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entente import __version__
from entente.artifacts import append_line, write_json, write_text
from entente.config import Section
from entente.deployment.policy import write_policy
from entente.deployment.require import require_flare
from entente.deployment.settings import FederationFile, parse_federation
from entente.errors import ConfigError, DeploymentError, StorageError
from entente.text import visible

COORDINATOR = "coordinator"
SECRET = "host-hash.secret"  # noqa: S105 - a file name # nosec B105
ISSUED = "issued.jsonl"
OPERATOR_ROLE = "lead"
_log = logging.getLogger(__name__)


class Kit(Section):
    """What `kit.json` says of the site a start-up kit is for."""

    site: str
    role: str
    version: str
    federation: FederationFile

    @property
    def is_coordinator(self) -> bool:
        return self.role == COORDINATOR

    @property
    def operator(self) -> str:
        return operator_name(self.federation.name)


def operator_name(federation: str) -> str:
    return f"operator@{federation}.federation"


def load_kit(path: Path) -> Kit:
    """Read a kit's description; DeploymentError if the folder is not a kit."""
    description = path / "kit.json"
    try:
        table = json.loads(description.read_text(encoding="utf-8"))
        federation = parse_federation(table["federation"], description)
        return Kit(site=table["site"], role=table["role"], version=table["version"], federation=federation)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DeploymentError(
            f"is not a start-up kit ({getattr(error, 'strerror', None) or error})",
            where=path,
            remedy="Give a folder that `entente federation provision` made.",
        ) from error


def provision(
    federation: FederationFile,
    out: Path,
    renew: tuple[str, ...] = (),
    requests: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Make (or make again) the kits of all sites under `out`; returns site -> kit folder.

    Certificates and the secret are kept in `out/authority` and used again, so that adding a silo
    leaves the others' kits valid; sites named in `renew` get a new key and certificate. `requests` has
    the public keys of sites that made their own (`read_requests`): their kits hold no private key.
    """
    require_flare()
    unknown = sorted(set(renew) - {COORDINATOR, *federation.silos})
    if unknown:
        raise ConfigError(f"--renew names {unknown[0]!r}, which is not a site of this federation")
    authority = out / "authority"
    for folder in (out, authority):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    _forget(authority / federation.name / "state" / "cert.json", federation, renew)
    made = _run_provisioner(federation, authority, requests or {})
    secret = _secret(authority)
    kits: dict[str, Path] = {}
    for site in (COORDINATOR, *federation.silos):
        is_coordinator = site == COORDINATOR
        source = made / (federation.coordinator.host if is_coordinator else site)
        if is_coordinator:
            _take_operator(made / operator_name(federation.name), source / "operator")
        else:
            (source / "local" / SECRET).write_text(secret + "\n", encoding="utf-8")
        write_json(
            source / "kit.json",
            {
                "site": site,
                "role": COORDINATOR if is_coordinator else "silo",
                "version": __version__,
                "federation": federation.model_dump(mode="json"),
            },
        )
        kits[site] = _install(source, out / "kits" / site)
        _record(authority, site, kits[site])
        write_policy(kits[site], is_coordinator, federation.terms.update_limit)
    shutil.rmtree(made)
    make_private(out)
    return kits


def subjects(federation: FederationFile) -> dict[str, str]:
    """Whom the authority issues certificates for: subject -> the site that holds it."""
    host, operator = federation.coordinator.host, operator_name(federation.name)
    return {host: COORDINATOR, operator: COORDINATOR} | {silo: silo for silo in federation.silos}


def read_requests(federation: FederationFile, place: Path) -> dict[str, Any]:
    """The signing requests in a folder (or one file): subject -> public key."""
    from entente.deployment.authority import read_request

    files = sorted(place.glob("*.csr")) if place.is_dir() else [place]
    if not files:
        raise DeploymentError("has no signing request (*.csr)", where=place)
    known, found = subjects(federation), {}
    for file in files:
        name, key = read_request(file)
        if name not in known:
            raise DeploymentError(f"is in the name of {visible(name, 80)!r}, who is no site", where=file)
        if name in found:
            raise DeploymentError(f"is the second request in the name of {name!r}", where=file)
        found[name] = key
    return found


def _record(authority: Path, site: str, kit: Path) -> None:
    """Add what is new in a kit to the list of issued certificates, for whoever has to revoke one."""
    from cryptography import x509

    path = authority / ISSUED
    known = _issued(path)
    for file in sorted(kit.rglob("*.crt")):
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        serial = str(certificate.serial_number)
        if serial not in known:
            end = certificate.not_valid_after_utc.isoformat()
            own = not file.with_suffix(".key").exists()
            entry = {"site": site, "file": file.name, "serial": serial, "until": end, "key_made_at_site": own}
            append_line(path, json.dumps(entry))


def _issued(path: Path) -> set[str]:
    """The serials in the list of issued certificates; a last line that a kill cut short is taken out."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        write_text(path, text)
    known = set()
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            known.add(str(json.loads(line)["serial"]))
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise StorageError(
                "is not an entry of the issued certificates",
                where=path,
                line=number,
                remedy="Put the line right or take it out; `entente federation check` shows a site's serial.",
            ) from error
    return known


def _run_provisioner(federation: FederationFile, authority: Path, requests: Mapping[str, Any]) -> Path:
    from nvflare.lighter.entity import Project
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    from entente.deployment.authority import Authority

    project = Project(federation.name, "Entente federation", props={"api_version": 3})
    coordinator = federation.coordinator
    project.set_server(
        coordinator.host,
        "coordinator",
        {
            "fed_learn_port": coordinator.port,
            "admin_port": coordinator.operator_port,
            "host_names": ["localhost"],  # where the operator connects to
        },
    )
    for silo in federation.silos:
        project.add_client(silo, silo.replace("-", "_"), {"allow_log_streaming": False})
    project.add_admin(
        operator_name(federation.name),
        "coordinator",
        {"role": OPERATOR_ROLE, "connect_to": "localhost"},
    )
    builders = [
        WorkspaceBuilder(),
        StaticFileBuilder(config_folder="config", scheme="tcp"),
        Authority(federation.certificate_days, requests),
    ]
    context = Provisioner(str(authority), builders).provision(project, logger=_log)
    folder = context.get("current_prod_dir")
    if context.get("__build_error__") or not folder:
        raise DeploymentError(
            "the certificate authority could not make the kits",
            where=authority,
            remedy="Run again with -v; if names or validity changed, provision into a new folder.",
        )
    return Path(folder)


def _forget(state: Path, federation: FederationFile, renew: tuple[str, ...]) -> None:
    """Drop the stored certificates of the sites to renew, so that new ones are issued."""
    if not renew or not state.is_file():
        return
    content: dict[str, Any] = json.loads(state.read_text(encoding="utf-8"))
    for subject, site in subjects(federation).items():
        if site in renew and not content.pop(subject, {"pri_key": "none"})["pri_key"]:
            raise ConfigError(
                f"{site} made its own key, so it is renewed with a new request",
                remedy="`entente federation join --new-key` at the site, then `provision --requests`.",
            )
    write_json(state, content)


def _secret(authority: Path) -> str:
    path = authority / SECRET
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


def _take_operator(source: Path, target: Path) -> None:
    """The operator's credentials go into the coordinator's kit; FLARE's console scripts do not."""
    for script in (*source.rglob("*.sh"), *source.rglob("*.ipynb"), *source.rglob("readme*")):
        script.unlink()
    shutil.move(str(source), str(target))


def _install(source: Path, target: Path) -> Path:
    """Put a kit in place; one that was started before keeps its runs, its audit and its settings."""
    target.mkdir(parents=True, exist_ok=True)
    for part in sorted(source.iterdir()):
        destination = target / part.name
        if part.is_dir() and destination.exists():
            _drop_stale_keys(part, destination)
            shutil.copytree(part, destination, dirs_exist_ok=True)
        elif part.is_dir():
            shutil.move(str(part), str(destination))
        else:
            shutil.copy2(part, destination)
    return target


def _drop_stale_keys(source: Path, target: Path) -> None:
    """A key made here before the site made its own does not stay beside the site's certificate."""
    for key in target.rglob("*.key"):
        fresh = source / key.relative_to(target)
        if fresh.with_suffix(".crt").exists() and not fresh.exists():
            key.unlink()


def make_private(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
