"""Starting and stopping a site's FLARE process; the process is the site, so killing it kills the site."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from entente import __version__
from entente.artifacts import private_files, write_json
from entente.deployment.policy import ENVIRONMENT, coordinator_resources
from entente.deployment.provision import COORDINATOR
from entente.deployment.site import Site
from entente.errors import DeploymentError

STOPPING = 20.0


def command(site: Site) -> list[str]:
    """The command line of the site's FLARE process."""
    side = "server" if site.kit.is_coordinator else "client"
    organisation = COORDINATOR if site.kit.is_coordinator else site.name.replace("-", "_")
    words = [sys.executable, "-u", "-m", f"nvflare.private.fed.app.{side}.{side}_train"]
    words += ["-m", str(site.path), "-s", f"fed_{side}.json", "--set", "secure_train=true"]
    words += [] if site.kit.is_coordinator else [f"uid={site.name}"]
    return [*words, f"org={organisation}", "config_folder=config"]


def environment() -> dict[str, str]:
    return {**ENVIRONMENT, **os.environ}


def limit_memory(gigabytes: float) -> None:
    """From now on this process gets a MemoryError instead of more than so much memory."""
    ceiling = int(gigabytes * 1e9)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling if hard < 0 else min(ceiling, hard), hard))


def become(site: Site) -> NoReturn:
    """Turn this process into the site: what supervises it then supervises FLARE itself."""
    os.umask(0o077)
    _ready(site)
    _write_pid(site, os.getpid())
    os.chdir(site.path)
    words = command(site)
    sys.stdout.flush()
    os.execve(words[0], words, environment())  # noqa: S606 - our own interpreter, fixed words # nosec B606


def start(site: Site) -> int:
    """Start the site in the background; returns its process id. Its output goes to console.log."""
    with private_files():
        _ready(site)
        with (site.path / "console.log").open("ab") as console:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter, fixed words # nosec B603
                command(site),
                cwd=site.path,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _write_pid(site, process.pid)
    return process.pid


def _ready(site: Site) -> None:
    running = pid_of(site)
    if running is not None:
        raise DeploymentError(
            f"is running already (process {running})", where=site.path, remedy="`entente federation stop` it."
        )
    clean(site)
    (site.path / "transfer").mkdir(exist_ok=True)
    if site.kit.is_coordinator:
        write_json(site.path / "local" / "resources.json", coordinator_resources(site.path))
    site.audit.append("site-started", version=__version__)


def stop(site: Site) -> bool:
    """End the site's process and its jobs; False if it was not running. Checkpoints make this safe."""
    pid = pid_of(site)
    (site.path / "site.pid").unlink(missing_ok=True)
    if pid is None:
        return False
    family = [*_descendants(pid), pid]
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOPPING
    while any(_alive(p) for p in family):
        if time.monotonic() > until - STOPPING / 2:
            for process in family:
                if _alive(process):
                    os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            raise DeploymentError(f"process {pid} does not end", where=site.path)
        time.sleep(0.1)
    site.audit.append("site-stopped")
    return True


def pid_of(site: Site) -> int | None:
    """The site's process, if it runs."""
    try:
        pid = int((site.path / "site.pid").read_text(encoding="utf-8"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    # Before the process has become FLARE, it is still our own command.
    ours = str(site.path) in words or "federation" in words
    return pid if ours and _alive(pid) else None


def clean(site: Site) -> None:
    """Remove what former FLARE jobs left in the kit; runs, audit and settings stay."""
    for leftover in site.path.glob("*-*-*-*-*"):
        if leftover.is_dir() and (leftover / "meta.json").exists():
            shutil.rmtree(leftover, ignore_errors=True)
    for name in ("members.json", "shutdown.fl", "restart.fl"):
        (site.path / name).unlink(missing_ok=True)


def _write_pid(site: Site, pid: int) -> None:
    (site.path / "site.pid").write_text(f"{pid}\n", encoding="utf-8")


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def _descendants(pid: int) -> list[int]:
    """Processes started by `pid`, and by those; FLARE gives each job a session of its own."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1]
            )
        except (OSError, IndexError, ValueError):
            continue
    found: list[int] = []
    for child in [p for p, parent in parents.items() if parent == pid]:
        found += [child, *_descendants(child)]
    return found
