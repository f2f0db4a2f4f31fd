"""Who is signed in: sessions of browsers, one-time links, and tokens of machines. Secrets are kept hashed."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from entente.console.database import Connections
from entente.console.users import ROLES, Role, User, check_name, check_role
from entente.errors import UsageError
from entente.service.database import transaction

IDLE, LONGEST = 8 * 3600.0, 24 * 3600.0
"""Seconds after which a session without a request ends, and any session."""
LINK = 600.0
MOST_SESSIONS = 10_000
PREFIX = "entente_"
"""Tokens begin with it, so that scanners for leaked secrets recognise them."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a person with a session (`csrf` is set), or a machine with a token."""

    name: str
    role: Role
    csrf: str | None = None

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class Sessions:
    """Sessions, links and tokens in the console's database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    # ---- browsers ------------------------------------------------------------------------------

    def start(self, user: User, origin: str = "password") -> str:
        """A new session; the secret for its cookie."""
        secret, now = secrets.token_urlsafe(32), time.time()
        with transaction(self._connections.get()) as connection:
            connection.execute(
                "DELETE FROM sessions WHERE started < ? OR seen < ?", (now - LONGEST, now - IDLE)
            )
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_hash(secret), user.name, user.role, secrets.token_urlsafe(32), origin, now, now),
            )
            connection.execute(
                "DELETE FROM sessions WHERE secret NOT IN "
                "(SELECT secret FROM sessions ORDER BY started DESC LIMIT ?)",
                (MOST_SESSIONS,),
            )
        return secret

    def find(self, secret: str) -> Principal | None:
        """Whose session it is, unless it is over."""
        connection, now = self._connections.get(), time.time()
        row = connection.execute("SELECT * FROM sessions WHERE secret = ?", (_hash(secret),)).fetchone()
        if row is None or now - row["started"] > LONGEST or now - row["seen"] > IDLE:
            return None
        if now - row["seen"] > 60:
            connection.execute("UPDATE sessions SET seen = ? WHERE secret = ?", (now, row["secret"]))
        return Principal(row["name"], row["role"], row["csrf"])

    def end(self, secret: str) -> None:
        self._connections.get().execute("DELETE FROM sessions WHERE secret = ?", (_hash(secret),))

    # ---- one-time links ------------------------------------------------------------------------

    def make_link(self, user: User) -> str:
        """A secret that signs in once, within ten minutes: for whoever started the console."""
        secret = secrets.token_urlsafe(32)
        self._connections.get().execute(
            "INSERT INTO links VALUES (?, ?, ?, ?)", (_hash(secret), user.name, user.role, time.time() + LINK)
        )
        return secret

    def use_link(self, secret: str) -> User | None:
        with transaction(self._connections.get()) as connection:
            row = connection.execute("SELECT * FROM links WHERE secret = ?", (_hash(secret),)).fetchone()
            connection.execute(
                "DELETE FROM links WHERE secret = ? OR until < ?", (_hash(secret), time.time())
            )
        return User(row["name"], row["role"]) if row is not None and row["until"] > time.time() else None

    # ---- machines ------------------------------------------------------------------------------

    def add_token(self, name: str, role: str, days: float) -> str:
        """A new token; it is shown this once and kept only as a hash."""
        secret = PREFIX + secrets.token_urlsafe(32)
        now = time.time()
        with transaction(self._connections.get()) as connection:
            if connection.execute("SELECT 1 FROM tokens WHERE name = ?", (name,)).fetchone():
                raise UsageError(
                    f"there is a token {name!r} already", remedy="Revoke it, or use another name."
                )
            connection.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?)",
                (check_name(name), _hash(secret), check_role(role), now, now + days * 86_400),
            )
        return secret

    def tokens(self) -> list[tuple[str, Role, float]]:
        """Name, role and end of each token."""
        rows = self._connections.get().execute("SELECT name, role, until FROM tokens ORDER BY name")
        return [(row["name"], row["role"], float(row["until"])) for row in rows]

    def revoke_token(self, name: str) -> None:
        if not self._connections.get().execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount:
            raise UsageError(f"there is no token {name!r}", remedy="`entente console token list`")

    def of_token(self, secret: str) -> Principal | None:
        row = (
            self._connections.get()
            .execute("SELECT * FROM tokens WHERE secret = ?", (_hash(secret),))
            .fetchone()
        )
        if row is None or row["until"] < time.time():
            return None
        return Principal(row["name"], row["role"])


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are equal, without telling by the time it takes."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
