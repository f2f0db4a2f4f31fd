"""A site's own folder: its kit, and beside it what its operator set and what its runs left.

kit.json, startup/, local/      the kit as provisioned
local/site.json                 this site's own settings (where its events are)
audit.jsonl                     what this site did and refused
runs/<run>/                     coordinator: the run folder; silo: its state between tasks
members.json                    coordinator: who is connected
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from entente.artifacts import private_files, read_json, write_json
from entente.config import Experiment
from entente.deployment.audit import Audit
from entente.deployment.guard import REVOKED, Admission
from entente.deployment.provision import SECRET, Kit, load_kit
from entente.errors import DeploymentError, StorageError


@dataclass(frozen=True, slots=True)
class Site:
    """One site, by the folder of its kit."""

    path: Path
    kit: Kit

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(path.resolve(), load_kit(path))

    @classmethod
    def of_process(cls) -> Self:
        """The site whose FLARE process this is; FLARE works inside the kit's folder."""
        return cls.load(Path.cwd())

    @property
    def name(self) -> str:
        return self.kit.site

    @property
    def audit(self) -> Audit:
        return Audit(self.path / "audit.jsonl", self.name)

    @property
    def message_limit(self) -> int:
        return int(self.kit.federation.terms.update_limit * 1_000_000)

    def run(self, name: str) -> Path:
        return self.path / "runs" / name

    # ---- a silo's own settings ----------------------------------------------------------------

    def save_settings(self, events: Path, hosts: Path | None) -> None:
        """Remember where this silo's events are, and which hosts are its own (all, without a table)."""
        for path in (events, hosts):
            if path is not None and not path.exists():
                raise DeploymentError("does not exist", where=path)
        table = {"events": str(events.resolve()), "hosts": str(hosts.resolve()) if hosts else None}
        with private_files():
            write_json(self.path / "local" / "site.json", table)

    def settings(self) -> dict[str, Any]:
        path = self.path / "local" / "site.json"
        if not path.exists():
            raise DeploymentError(
                f"silo {self.name} does not know its event directory",
                where=self.path,
                remedy="Start it with --events DIR.",
            )
        table: dict[str, Any] = read_json(path)
        return table

    def localised(self, experiment: Experiment) -> Experiment:
        """The experiment with this silo's own paths in it."""
        own = self.settings()
        paths = {"events": Path(own["events"]), "silos": Path(own["hosts"]) if own["hosts"] else None}
        return experiment.model_copy(
            update={
                "data": experiment.data.model_copy(update=paths),
                "graph": experiment.graph.model_copy(update={"secret": self.path / "local" / SECRET}),
            }
        )

    # ---- the coordinator's knowledge ----------------------------------------------------------

    def admission(self, operators: bool) -> Admission:
        """Who may connect to the coordinator's port: its operator to one, the silos to the other."""
        names = {self.kit.operator} if operators else self.kit.federation.silos
        return Admission(frozenset(names), self.path / REVOKED)

    def members(self) -> dict[str, dict[str, Any]] | None:
        """Connected silos, each with its session and when last heard of; None if nobody keeps count."""
        try:
            table: dict[str, dict[str, Any]] = read_json(self.path / "members.json")
        except StorageError:
            return None
        return table

    def write_members(self, members: Mapping[str, Mapping[str, Any]]) -> None:
        write_json(self.path / "members.json", members)


class RunState:
    """Where a run stands, for `status`, `submit` and the supervisor; one small file in the run folder."""

    ENDED = ("done", "stopped", "failed")

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.json"

    def write(self, phase: str, **facts: Any) -> None:
        """Phase: running, rejoin (ends so that a silo can come back), done, stopped or failed."""
        table = self.read() | facts
        table |= {"phase": phase, "updated": datetime.now(UTC).isoformat(timespec="seconds")}
        write_json(self.path, table)

    def read(self) -> dict[str, Any]:
        try:
            table: dict[str, Any] = read_json(self.path)
        except StorageError:
            return {}
        return table
