"""A console over a small store, and people who use it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="entente[console] is not installed")


from argon2 import PasswordHasher
from fastapi.testclient import TestClient

from entente.console.app import create_app
from entente.console.sessions import Sessions
from entente.console.settings import ConsoleSettings, settle
from entente.console.users import Users
from entente.detection.alerts import Alert
from entente.detection.incidents import assign_incidents
from entente.service.alerts import AlertStore
from entente.service.database import connect, transaction
from entente.service.service import DATABASE
from entente.service.suppression import Suppressions

__all__ = ["ConsoleSettings", "House", "alert", "fill", "settle", "some_alerts"]
HOUR = 3_600_000_000
START = 1_790_000_000_000_000 // HOUR * HOUR
PASSWORD = "correct horse battery"
CHAIN = (
    ("lyon-ws01", "lyon-fs01"),
    ("lyon-fs01", "graz-dc01"),
    ("graz-dc01", "graz-db01"),
    ("lyon-fs01", "lyon-ws07"),
)


def alert(hour: int, src: str, dst: str, **changes: Any) -> Alert:
    values: dict[str, Any] = {
        "start": START + hour * HOUR, "end": START + (hour + 1) * HOUR, "src": src, "dst": dst,
        "score": 1.0 + hour / 100, "threshold": 0.5, "severity": "medium", "silo": src.split("-")[0],
        "explanation": (f"first contact from {src} to {dst} in 30.0 days of the logs",), "events": 3,
    }  # fmt: skip
    return Alert(**(values | changes))


def some_alerts() -> tuple[Alert, ...]:
    """A chain across two silos, a pair with a port, and an alert that stands alone."""
    chain = [
        alert(i, src, dst, users=("CORP\\eve",), ports=(445,), technique="T1021.002",
              technique_reason="port 445", severity="high" if i else "medium",
              also=("graz",) if i == 1 else ())
        for i, (src, dst) in enumerate(CHAIN)
    ]  # fmt: skip
    others = [
        alert(
            30,
            "10.1.2.3",
            "porto-srv1",
            silo="porto",
            ports=(3389,),
            technique="T1021.001",
            users=("backup",),
        ),
        alert(
            31,
            "10.1.2.3",
            "porto-srv2",
            silo="porto",
            ports=(3389,),
            technique="T1021.001",
            users=("backup",),
        ),
        alert(60, "porto-ws9", "porto-srv1", severity="low"),
    ]
    return assign_incidents([*chain, *others])


def fill(folder: Path, alerts: tuple[Alert, ...]) -> None:
    connection = connect(folder / DATABASE)
    with transaction(connection):
        AlertStore(connection).add(alerts, Suppressions())
    connection.close()


class House:
    """A console with users of every role, whose passwords are cheap to check."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.app = create_app(settings)
        gate = self.app.state.gate
        self.hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        self.app.state.gate = replace(gate, users=Users(gate.desk.own, self.hasher))
        self.sessions: Sessions = gate.sessions
        self.desk = gate.desk
        for role in ("viewer", "analyst", "operator"):
            self.app.state.gate.users.add(f"{role}1", role, PASSWORD)
        self.app.state.gate.users.add("analyst2", "analyst", PASSWORD)

    def anonymous(self) -> TestClient:
        return TestClient(
            self.app, base_url="http://127.0.0.1", follow_redirects=False, raise_server_exceptions=False
        )

    def signed_in(self, name: str = "analyst1") -> TestClient:
        """A browser with a session; it sends the token of its pages with every request."""
        client = self.anonymous()
        assert client.post("/sign-in", data={"name": name, "password": PASSWORD}).status_code == 303
        principal = self.sessions.find(client.cookies["entente_session"])
        assert principal is not None
        client.headers["X-CSRF-Token"] = str(principal.csrf)
        return client

    def machine(self, role: str = "analyst") -> TestClient:
        client = self.anonymous()
        client.headers["Authorization"] = f"Bearer {self.sessions.add_token(f'machine-{role}', role, 1.0)}"
        return client

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.desk.audit.path.read_text().splitlines()]
