"""What a console shows and where it listens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from entente.deployment.site import Site
from entente.errors import UsageError
from entente.runs.folder import EXPERIMENT
from entente.service.config import LOOPBACK
from entente.service.service import DATABASE

PORT = 9467
FOLDER = "console"
"""The console's own folder, beside what it shows: users, sessions, index and audit."""
HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,39}")


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Paths that are shown, and the address. Made by `settle`, which checks them."""

    data: Path  # the console's own folder
    service: Path | None = None
    kit: Path | None = None
    run: Path | None = None
    experiments: Path | None = None  # folder of experiment files that may be started
    oidc: Path | None = None
    host: str = "127.0.0.1"
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None

    @property
    def tls(self) -> bool:
        return self.certificate is not None

    @property
    def alerts(self) -> Path:
        """The database with the alerts: the service's, or one that is filled from the run."""
        return self.service / DATABASE if self.service is not None else self.data / "alerts.db"

    @property
    def origin(self) -> str:
        """How a browser on this machine reaches the console."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}"


def settle(settings: ConsoleSettings) -> ConsoleSettings:
    """The settings, if they can work; UsageError with what is wrong."""
    shown = (settings.service, settings.kit, settings.run)
    if not any(shown):
        raise UsageError(
            "there is nothing to show", remedy="Give --service DIR, --run RUN, --kit KIT or several of them."
        )
    if settings.service is not None and not (settings.service / DATABASE).is_file():
        raise UsageError(
            "holds no service", where=settings.service, remedy="Give the `folder` of the service's file."
        )
    if settings.run is not None and not (settings.run / EXPERIMENT).is_file():
        raise UsageError("is not a run folder", where=settings.run, remedy="Give what `entente train` wrote.")
    if settings.kit is not None:
        Site.load(settings.kit)
    if settings.experiments is not None and not settings.experiments.is_dir():
        raise UsageError("is not a folder", where=settings.experiments, remedy="Give one of TOML files.")
    if (settings.certificate is None) != (settings.key is None):
        raise UsageError("--certificate and --key belong together", remedy="Give both or none.")
    for file in (settings.certificate, settings.key, settings.oidc):
        if file is not None and not file.is_file():
            raise UsageError("does not exist", where=file)
    if not HOST_NAME.fullmatch(settings.host):
        raise UsageError(f"{settings.host!r} is not a name or an address")
    if settings.host not in LOOPBACK and not settings.tls:
        raise UsageError(
            f"{settings.host} can be reached from other machines, and passwords would cross the network",
            remedy="Give --certificate and --key, or leave --host out: then only this machine gets in.",
        )
    return settings


def own_folder(service: Path | None, kit: Path | None, run: Path | None) -> Path:
    """Where the console keeps its own files: in the first of what it shows."""
    return (service or kit or run or Path()) / FOLDER
