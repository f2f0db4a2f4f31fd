"""Local users: argon2 passwords, three roles, and a lock after too many wrong ones."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from typing import Literal, get_args

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from entente.console.database import Connections
from entente.errors import UsageError
from entente.service.database import transaction

Role = Literal["viewer", "analyst", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what the ones before it may: look; work on alerts; start and stop experiments."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
SHORTEST, LONGEST = 12, 1000
"""Characters of a password."""
TRIES = 5
"""Wrong passwords for one name, or twenty times as many from one address, before it has to wait."""
FROM_ONE_ADDRESS = 20 * TRIES
WAIT = 900.0
MOST_FAILURES = 10_000
"""Names and addresses remembered; made-up names must not fill the disk."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role


class Users:
    """Who may sign in with a password."""

    def __init__(self, connections: Connections, hasher: PasswordHasher | None = None) -> None:
        self._connections = connections
        self._hasher = hasher or PasswordHasher()
        self._nobody = self._hasher.hash("a password that nobody has")

    def add(self, name: str, role: str, password: str) -> User:
        """A new user; UsageError if the name is taken or anything is out of bounds."""
        user = User(check_name(name), check_role(role))
        _check_password(password)
        with transaction(self._connections.get()) as connection:
            if connection.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone():
                raise UsageError(f"there is a user {name!r} already", remedy="Remove it first.")
            connection.execute(
                "INSERT INTO users VALUES (?, ?, ?, ?)",
                (name, role, self._hasher.hash(password), int(time.time())),
            )
        return user

    def remove(self, name: str) -> None:
        """Shut a user out at once, sessions included."""
        with transaction(self._connections.get()) as connection:
            if not connection.execute("DELETE FROM users WHERE name = ?", (name,)).rowcount:
                raise UsageError(f"there is no user {name!r}", remedy="`entente console user list`")
            connection.execute("DELETE FROM sessions WHERE name = ?", (name,))

    def all(self) -> list[User]:
        rows = self._connections.get().execute("SELECT name, role FROM users ORDER BY name")
        return [User(row["name"], row["role"]) for row in rows]

    def verify(self, name: str, password: str, address: str) -> User | None:
        """The user with this password, else None; an unknown name takes as long as a wrong password."""
        kept = (f"name {_digest(name)}", f"address {address[:64]}")
        if self._locked(kept) or len(password) > LONGEST:
            return None
        row = self._connections.get().execute("SELECT * FROM users WHERE name = ?", (name[:64],)).fetchone()
        try:
            self._hasher.verify(row["password"] if row else self._nobody, password)
        except (Argon2Error, InvalidHashError):
            row = None
        if row is None:
            self._failed(kept)
            return None
        self._connections.get().execute("DELETE FROM failures WHERE what = ?", (kept[0],))
        return User(row["name"], row["role"])

    def locked(self, name: str) -> bool:
        """Whether the name has to wait after too many wrong passwords."""
        return self._locked((f"name {_digest(name)}",))

    def _locked(self, kept: tuple[str, ...]) -> bool:
        for what in kept:
            row = self._connections.get().execute("SELECT * FROM failures WHERE what = ?", (what,)).fetchone()
            most = TRIES if what.startswith("name") else FROM_ONE_ADDRESS
            if row is not None and row["count"] >= most and row["until"] > time.time():
                return True
        return False

    def _failed(self, kept: tuple[str, ...]) -> None:
        now = time.time()
        with transaction(self._connections.get()) as connection:
            connection.execute("DELETE FROM failures WHERE until < ?", (now,))
            for what in kept:
                connection.execute(
                    "INSERT INTO failures VALUES (?, 1, ?) ON CONFLICT (what) DO UPDATE "
                    "SET count = count + 1, until = excluded.until",
                    (what, now + WAIT),
                )
            connection.execute(
                "DELETE FROM failures WHERE what NOT IN "
                "(SELECT what FROM failures ORDER BY until DESC LIMIT ?)",
                (MOST_FAILURES,),
            )


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a user's name", remedy="1 to 64 letters, digits, dots, dashes, @."
        )
    return name


def check_role(role: str) -> Role:
    for known in ROLES:
        if role == known:
            return known
    raise UsageError(f"there is no role {role!r}", remedy=f"Roles: {', '.join(ROLES)}.")


def _check_password(password: str) -> None:
    if not SHORTEST <= len(password) <= LONGEST:
        raise UsageError(f"a password has {SHORTEST} to {LONGEST} characters")


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
