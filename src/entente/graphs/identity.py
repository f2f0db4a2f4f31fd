"""Which rows of the federated identity table describe a host.

`shared-index`: every host has a row of its own, and everybody knows the list, as in the paper.
`keyed-hash`: a host is HMAC'd into two rows of a fixed-size table whose sum is its identity. Names
never leave the silo, new hosts have a place, and the model's size does not depend on who takes part.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from entente.config import Graph
from entente.errors import ConfigError, GraphError
from entente.graphs.merging import USER
from entente.graphs.temporal import NOBODY, Int32

MINIMUM_SECRET = 16
ROLES = 256
"""Rows of the identity table that roles are hashed into."""


class Identity(Protocol):
    """Maps host names to rows of the identity table."""

    @property
    def table_size(self) -> int: ...

    @property
    def rows_per_host(self) -> int: ...

    def rows(self, hosts: Sequence[str]) -> Int32:
        """Rows of each host, shape [hosts, rows_per_host]."""


class SharedIndex:
    """Row = position in the sorted list of all hosts."""

    rows_per_host = 1

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = np.unique(np.asarray(hosts, dtype=np.str_))

    @property
    def table_size(self) -> int:
        return max(1, len(self._hosts))

    def rows(self, hosts: Sequence[str]) -> Int32:
        names = np.asarray(hosts, dtype=np.str_)
        found = np.searchsorted(self._hosts, names)
        known = found < len(self._hosts)
        known[known] = self._hosts[found[known]] == names[known]
        if not known.all():
            raise GraphError(
                f"host {names[~known][0]!r} is not in the shared index",
                remedy="A shared index holds only hosts known when the run began; "
                'use graph.identity = "keyed-hash" where new hosts appear.',
            )
        return found.astype(np.int32).reshape(-1, 1)


class KeyedHash:
    """Two rows per host, drawn by HMAC-SHA256 under a secret that only the silos share."""

    rows_per_host = 2

    def __init__(self, secret: bytes, table_size: int) -> None:
        if len(secret) < MINIMUM_SECRET:
            raise ConfigError(
                f"the host-hash secret has {len(secret)} bytes, fewer than {MINIMUM_SECRET}",
                remedy="Make one with `openssl rand -hex 32` and give every silo the same file.",
            )
        self._secret = secret
        self.table_size = table_size

    def rows(self, hosts: Sequence[str]) -> Int32:
        digests = b"".join(
            hmac.digest(self._secret, host.encode("utf-8", "surrogateescape"), hashlib.sha256)[:16]
            for host in hosts
        )
        draws = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
        first = draws[:, 0] % np.uint64(self.table_size)
        # The second row is drawn among the others, so that a host never has the same row twice.
        second = (first + np.uint64(1) + draws[:, 1] % np.uint64(self.table_size - 1)) % np.uint64(
            self.table_size
        )
        return np.stack([first, second], axis=1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """No row for anybody: hosts that came after a shared index was made."""

    table_size: int
    rows_per_host: int = SharedIndex.rows_per_host

    def rows(self, hosts: Sequence[str]) -> Int32:
        return np.full((len(hosts), self.rows_per_host), NOBODY, dtype=np.int32)


class WithRoles:
    """One more row per host, the last one, which all hosts of its role share: X = [I | one-hot of roles].

    A role's row is a hash of its name, so that silos need not agree on a list of roles. A host without a
    role has no such row; a user is of the role `user`.
    """

    def __init__(self, identity: Identity, roles: Mapping[str, str]) -> None:
        self._identity, self._roles = identity, roles
        self.table_size = identity.table_size + ROLES
        self.rows_per_host = identity.rows_per_host + 1

    def rows(self, hosts: Sequence[str]) -> Int32:
        roles = ("user" if host.startswith(USER) else self._roles.get(host) for host in hosts)
        shared = np.array([NOBODY if role is None else self._row(role) for role in roles], dtype=np.int32)
        return np.concatenate((self._identity.rows(hosts), shared.reshape(-1, 1)), axis=1)

    def _row(self, role: str) -> int:
        digest = hashlib.sha256(role.encode("utf-8", "surrogateescape")).digest()
        return self._identity.table_size + int.from_bytes(digest[:8], "little") % ROLES


@dataclass(frozen=True, slots=True)
class Collisions:
    """How many hosts cannot be told apart, or share one of their rows, beside what chance predicts."""

    hosts: int
    table_size: int
    identical: int  # pairs of hosts with the same set of rows
    identical_expected: float
    sharing: int  # hosts with at least one row that another host has too
    sharing_expected: float


def collisions(rows: Int32, table_size: int) -> Collisions:
    """Actual and expected collisions of hosts in the identity table."""
    hosts, per_host = rows.shape
    ordered = np.sort(rows, axis=1)
    _, counts = np.unique(ordered, axis=0, return_counts=True)
    identical = int((counts * (counts - 1) // 2).sum())
    used = np.bincount(rows.reshape(-1), minlength=table_size)
    sharing = int((used[rows] > 1).any(axis=1).sum())
    if per_host == 1:  # a shared index: one row each, by construction
        return Collisions(hosts, table_size, identical, 0.0, sharing, 0.0)
    sets = table_size * (table_size - 1) / 2
    alone = (1 - per_host / table_size) ** (per_host * max(0, hosts - 1))
    pairs = hosts * (hosts - 1) / 2
    return Collisions(hosts, table_size, identical, pairs / sets, sharing, hosts * (1 - alone))


def read_secret(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(
            f"the host-hash secret cannot be read ({error.strerror})",
            where=path,
            remedy="Set graph.secret to a file that every silo, and not the coordinator, has.",
        ) from error


def read_roles(path: Path) -> dict[str, str]:
    """{host: role} of a CSV with these two columns; other columns do not matter."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            if table.fieldnames is None or not {"host", "role"} <= set(table.fieldnames):
                raise ConfigError(
                    "has no columns host and role", where=path, remedy="Begin the file with `host,role`."
                )
            return {line["host"]: line["role"] for line in table if line["role"]}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"the roles cannot be read ({error})", where=path) from error


def host_rows(config: Graph, rows: Int32) -> Int32:
    """The rows that tell hosts apart, without those of roles."""
    return rows if config.roles is None else rows[:, :-1]


def make_identity(config: Graph, all_hosts: Sequence[str]) -> Identity:
    """The identity scheme of an experiment; `all_hosts` is used by the shared index only."""
    identity = _of_hosts(config, all_hosts)
    return identity if config.roles is None else WithRoles(identity, read_roles(config.roles))


def _of_hosts(config: Graph, all_hosts: Sequence[str]) -> Identity:
    if config.identity == "shared-index":
        return SharedIndex(all_hosts)
    if config.secret is None:
        raise ConfigError(
            "graph.identity = keyed-hash needs graph.secret",
            remedy="Make one with `openssl rand -hex 32` and give every silo the same file.",
        )
    return KeyedHash(read_secret(config.secret), config.table_size)


def later_identity(config: Graph, table_size: int) -> Identity:
    """Of hosts that appear after training: a keyed hash has a place for them, a shared index none."""
    if config.identity != "shared-index":
        return make_identity(config, ())
    if config.roles is None:
        return Unlisted(table_size)
    return WithRoles(Unlisted(table_size - ROLES), read_roles(config.roles))
