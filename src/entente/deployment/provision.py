"""Start-up kits: one folder per site with its certificate, its policy and what was agreed.

The authority (certificate authority and host-hash secret) stays where kits are made. A silo's kit
holds the secret; the coordinator's kit does not, and holds the operator's credentials instead.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
from pathlib import Path
from typing import Any

from entente import __version__
from entente.artifacts import write_json
from entente.config import Section
from entente.deployment.policy import write_policy
from entente.deployment.require import require_flare
from entente.deployment.settings import FederationFile, parse_federation
from entente.errors import ConfigError, DeploymentError

COORDINATOR = "coordinator"
SECRET = "host-hash.secret"  # noqa: S105 - a file name
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
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeploymentError(
            f"is not a start-up kit ({error})",
            where=path,
            remedy="Give a folder that `entente federation provision` made.",
        ) from error


def provision(federation: FederationFile, out: Path, renew: tuple[str, ...] = ()) -> dict[str, Path]:
    """Make (or make again) the kits of all sites under `out`; returns site -> kit folder.

    Certificates and the secret are kept in `out/authority` and used again, so that adding a silo
    leaves the others' kits valid; sites named in `renew` get a new key and certificate.
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
    made = _run_provisioner(federation, authority)
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
        write_policy(kits[site], is_coordinator, federation.terms.update_limit)
    shutil.rmtree(made)
    _make_private(out)
    return kits


def _run_provisioner(federation: FederationFile, authority: Path) -> Path:
    from nvflare.lighter.entity import Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

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
        CertBuilder(root_valid_days=federation.certificate_days),
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
    for site in renew:
        if site == COORDINATOR:
            content.pop(federation.coordinator.host, None)
            content.pop(operator_name(federation.name), None)
        else:
            content.pop(site, None)
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
            shutil.copytree(part, destination, dirs_exist_ok=True)
        elif part.is_dir():
            shutil.move(str(part), str(destination))
        else:
            shutil.copy2(part, destination)
    return target


def _make_private(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
