"""What a silo remembers of accounts: on which hosts each was used, who fails, who signs on how.

A log without accounts, outcomes or log-on types leaves these features masked (not a number), so that one
network serves logs with and without them. Names are kept as 31-bit fingerprints.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.graphs.context import NOTHING, Frequent
from entente.graphs.temporal import Int32, Int64, TemporalGraph

Values = NDArray[Any]
Places = NDArray[np.intp]

KINDS = 16
"""Log-on types are told apart by a fingerprint of so many values."""
MASKED = np.nan
USE = {"use": "f4", "used": "i4"}
"""Per (account, host): in how many windows, fading; number of the last one."""
ACCOUNT = {"account_use": "f4", "account_hosts": "i4", "account_spread": "f4"}
"""Per account: windows times hosts, fading; hosts; hosts that were new to it, fading within a day."""
HOST = {"host_use": "f4", "host_accounts": "i4", "host_failures": "f4"}
USE_HALF_LIFE, DAY_HALF_LIFE = 336.0, 24.0
FADING = {
    "use": USE_HALF_LIFE,
    "account_use": USE_HALF_LIFE,
    "account_spread": DAY_HALF_LIFE,
    "host_use": USE_HALF_LIFE,
    "host_failures": DAY_HALF_LIFE,
    "logons": USE_HALF_LIFE,
}


class Accounts:
    """The part of a state that knows accounts, opened for the windows of one graph."""

    def __init__(self, state: Arrays, graph: TemporalGraph, nodes: int, hours: float) -> None:
        context = graph.context
        edges = graph.num_edges
        self.user = _fingerprints(context.user if context else None, edges)
        self.logon = _fingerprints(context.logon if context else None, edges)[:, 0]
        self.logon = np.where(self.logon >= 0, self.logon % KINDS, NOTHING)
        failures = context.failures if context else None
        self.failures = np.full(edges, NOTHING, dtype=np.int32) if failures is None else failures
        pairs = np.where(self.user >= 0, (self.user << 32) | graph.src[:, None], NOTHING)
        self.pairs, self.pair = _opened(state, "account_pairs", USE, pairs)
        self.names, self.account = _opened(state, "accounts", ACCOUNT, self.user)
        self.place, self.who = _places(self.pairs, pairs), _places(self.names, self.user)
        self.host: dict[str, Values] = {}
        for name, kind in HOST.items():
            self.host[name] = np.zeros(nodes, dtype=kind)
            self.host[name][: len(state[name])] = state[name]
        self.logons = np.zeros((KINDS, nodes), dtype=np.float32)
        self.logons[:, : state["logons"].shape[1]] = state["logons"]
        self.fading = {name: np.float32(2.0 ** (-hours / life)) for name, life in FADING.items()}

    @staticmethod
    def empty(nodes: int) -> Arrays:
        """The state before any window."""
        state: Arrays = {
            "account_pairs": np.zeros(0, dtype=np.int64),
            "accounts": np.zeros(0, dtype=np.int64),
        }
        state |= {name: np.zeros(0, dtype=kind) for name, kind in (USE | ACCOUNT).items()}
        state |= {name: np.zeros(nodes, dtype=kind) for name, kind in HOST.items()}
        return state | {"logons": np.zeros((KINDS, nodes), dtype=np.float32)}

    def state(self) -> Arrays:
        seen, met = self.pair["used"] > 0, self.account["account_hosts"] > 0
        state: Arrays = {
            "account_pairs": self.pairs[seen],
            "accounts": self.names[met],
            "logons": self.logons,
        }
        state |= {name: values[seen] for name, values in self.pair.items()}
        return state | {name: values[met] for name, values in self.account.items()} | self.host

    def forget(self, before: int) -> None:
        """Let go of what was not used since the window of that number."""
        old = (self.pair["used"] > 0) & (self.pair["used"] < before)
        if old.any():
            keys = self.pairs[old]
            self.pair["used"][old] = 0
            self.pair["use"][old] = 0.0
            gone = np.bincount(np.searchsorted(self.names, keys >> 32), minlength=len(self.names))
            self.account["account_hosts"] -= gone.astype(np.int32)
            nodes = len(self.host["host_accounts"])
            lost = np.bincount(keys & 0xFFFFFFFF, minlength=nodes).astype(np.int32)
            self.host["host_accounts"] -= lost

    def fade(self) -> None:
        """One window has passed."""
        for table in (self.pair, self.account, self.host):
            for name in table:
                if name in self.fading:
                    table[name] *= self.fading[name]
        self.logons *= self.fading["logons"]

    # ---- one window ------------------------------------------------------------------------

    def values(self, part: slice, a: Int32) -> dict[str, Values]:
        """Raw values of a window's edges, whose sources are `a`; of several accounts the oddest."""
        return self._of_account(part, a) | self._of_failures(part, a) | self._of_logon(part, a)

    @staticmethod
    def masked(edges: int) -> dict[str, Values]:
        """Of pairs that no event stands behind."""
        nothing = np.full(edges, MASKED)
        known = dict.fromkeys(("has_user", "has_outcome", "has_logon"), np.zeros(edges))
        return known | dict.fromkeys(MASKABLE, nothing)

    def _of_account(self, part: slice, a: Int32) -> dict[str, Values]:
        place, who = self.place[part], self.who[part]
        known = place[:, 0] >= 0
        if not known.any():
            return {"has_user": known} | dict.fromkeys(OF_ACCOUNT, np.full(len(a), MASKED))
        use = np.where(place >= 0, self.pair["use"][place], np.inf)
        use = np.where((place >= 0) & (self.pair["used"][place] == 0), -1.0, use)
        row, column = np.arange(len(a)), np.argmin(use, axis=1)
        place, who = place[row, column], who[row, column]
        used = np.where(place >= 0, self.pair["use"][place], 0.0)
        total, hosts = self.account["account_use"][who], self.account["account_hosts"][who]
        values = {
            "u_new": self.pair["used"][place] == 0,
            "u_unknown": hosts == 0,
            "u_share": (used + 0.1) / (total + 1.0),
            "u_hosts": hosts,
            "u_spread": self.account["account_spread"][who],
            "u_main": (used + 0.1) / (self.host["host_use"][a] + 1.0),
            "a_accounts": self.host["host_accounts"][a],
        }
        return {"has_user": known} | {name: np.where(known, x, MASKED) for name, x in values.items()}

    def _of_failures(self, part: slice, a: Int32) -> dict[str, Values]:
        failures = self.failures[part]
        known = failures != NOTHING
        values = {
            "failed": np.maximum(failures, 0),
            "a_failures": self.host["host_failures"][a] + np.maximum(failures, 0),
        }
        return {"has_outcome": known} | {name: np.where(known, x, MASKED) for name, x in values.items()}

    def _of_logon(self, part: slice, a: Int32) -> dict[str, Values]:
        kind = self.logon[part]
        known = kind != NOTHING
        general = self.logons.sum(axis=1) + 0.1
        usual = general[kind] / general.sum()
        own = self.logons[kind, a]
        odd = -np.log((own + usual) / (self.logons[:, a].sum(axis=0) + 1.0))
        return {"has_logon": known, "logon_odd": np.where(known, odd, MASKED)}

    def learn(self, part: slice, src: Int32, number: int, worth: np.float32) -> None:
        """Take a window's edges into the memory."""
        place = np.unique(self.place[part])
        place = place[place >= 0]
        if len(place):
            key = self.pairs[place]
            who, host = np.searchsorted(self.names, key >> 32), key & 0xFFFFFFFF
            new = self.pair["used"][place] == 0
            self.pair["use"][place] += 1.0
            self.pair["used"][place] = number + 1
            np.add.at(self.account["account_use"], who, np.float32(1.0))
            np.add.at(self.host["host_use"], host, np.float32(1.0))
            np.add.at(self.account["account_hosts"], who[new], 1)
            np.add.at(self.account["account_spread"], who[new], worth)
            np.add.at(self.host["host_accounts"], host[new], 1)
        failures = self.failures[part]
        failed = failures > 0
        np.add.at(self.host["host_failures"], src[failed], failures[failed].astype(np.float32))
        kind = self.logon[part]
        said = kind != NOTHING
        np.add.at(self.logons, (kind[said], src[said]), np.float32(1.0))


OF_ACCOUNT = ("u_new", "u_unknown", "u_share", "u_hosts", "u_spread", "u_main", "a_accounts")
MASKABLE = (*OF_ACCOUNT, "failed", "a_failures", "logon_odd")


def fingerprint(name: str) -> int:
    """A number for a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little") >> 1


def _fingerprints(column: Frequent | None, edges: int) -> Int64:
    """The values of each edge as fingerprints [edges, at least one]; NOTHING where there is none."""
    if column is None or not column.top.shape[1]:
        return np.full((edges, 1), NOTHING, dtype=np.int64)
    known = np.array([fingerprint(str(name)) for name in column.values.tolist()], dtype=np.int64)
    found: Int64 = np.append(known, NOTHING)[column.top]
    return found


def _opened(
    state: Arrays, name: str, columns: dict[str, str], keys: Int64
) -> tuple[Int64, dict[str, Values]]:
    """The state's table with a place for the graph's keys as well."""
    known: Int64 = np.union1d(state[name], keys[keys >= 0])
    kept = np.searchsorted(known, state[name])
    table = {}
    for column, kind in columns.items():
        table[column] = np.zeros(len(known), dtype=kind)
        table[column][kept] = state[column]
    return known, table


def _places(known: Int64, keys: Int64) -> Places:
    if not len(known):
        return np.full(keys.shape, NOTHING, dtype=np.intp)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, place, NOTHING)
