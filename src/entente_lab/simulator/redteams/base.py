"""What a red team knows of the company it attacks, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente_lab.simulator.activity import KERBEROS, NTLM, SERVICE, Clocks, Events
from entente_lab.simulator.company import (
    ADMIN,
    CONTROLLER,
    SERVER,
    SHARED,
    WORKSTATION,
    Company,
    FloatArray,
    IntArray,
    SimulationConfig,
)

LATERAL = {"smb": "T1021.002", "wmi": "T1047", "rdp": "T1021.001", "winrm": "T1021.006"}
"""Protocol of a lateral movement -> ATT&CK technique."""
TECHNIQUES = {
    "T1021.001": "Remote Desktop Protocol",
    "T1021.002": "SMB/Windows Admin Shares",
    "T1021.006": "Windows Remote Management",
    "T1047": "Windows Management Instrumentation",
    "T1018": "Remote System Discovery",
    "T1135": "Network Share Discovery",
    "T1558.003": "Kerberoasting",
    "T1039": "Data from Network Shared Drive",
    "T1074.002": "Remote Data Staging",
    "T1078.002": "Domain Accounts",
    "T1110.001": "Password Guessing",
    "T1570": "Lateral Tool Transfer",
}
"""Every technique a red team uses, with ATT&CK's name for it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One contact a red team makes: which host, to which, as whom, and why."""

    src: int
    dst: int
    account: int
    technique: str
    protocol: str
    name: str


@dataclass(frozen=True, slots=True)
class Move:
    """A step with its moment (second)."""

    time: float
    step: Step
    failures: int = 0
    """Attempts that fail in the minutes before."""
    denied: bool = False
    """Whether none succeeds."""


@dataclass(frozen=True, slots=True, eq=False)
class Attack:
    """One red team's events, in time order, and the step each belongs to."""

    style: str
    events: Events
    step: IntArray
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The company as a red team finds it. `benign` is what happens there without it."""

    config: SimulationConfig
    company: Company
    clocks: Clocks
    benign: Events
    person: NDArray[np.bool_]
    """Which accounts belong to people, not to machines or services."""

    @classmethod
    def of(cls, config: SimulationConfig, company: Company, clocks: Clocks, benign: Events) -> Scene:
        names = company.accounts
        return cls(
            config,
            company,
            clocks,
            benign,
            ~np.char.startswith(names, "svc-") & (np.char.find(names, "$@") < 0),
        )

    def accounts_on(self, host: int) -> IntArray:
        """Accounts of people that were used from the host or on it, the most frequent first."""
        here = (self.benign.src == host) | (self.benign.dst == host)
        here &= self.benign.time < self.config.attack_start
        found, count = np.unique(self.benign.account[here], return_counts=True)
        found, count = found[self.person[found]], count[self.person[found]]
        ordered: IntArray = found[np.argsort(-count, kind="stable")]
        return ordered

    def loot(self, host: int, rng: np.random.Generator) -> int:
        """A credential to steal: an admin's who was there, else another user's, else the host's own."""
        found = self.accounts_on(host)
        admins = found[np.char.startswith(self.company.accounts[found], "ADM")]
        if len(admins):
            return int(rng.choice(admins))
        others = found[found != host]
        return int(rng.choice(others)) if len(others) else host

    def service_account(self, rng: np.random.Generator) -> int:
        """Any service account: whoever is in the domain may ask for its ticket."""
        return int(rng.choice(np.flatnonzero(np.char.startswith(self.company.accounts, "svc-"))))

    def known_targets(self, host: int) -> IntArray:
        """Whom the host contacts before the attack."""
        here = (self.benign.src == host) & (self.benign.time < self.config.attack_start)
        targets: IntArray = np.unique(self.benign.dst[here])
        return targets

    def foothold(self, rng: np.random.Generator) -> int:
        """A workstation in use before the attack: of a branch, or of the head office if there is none."""
        company = self.company
        early = company.of(WORKSTATION)
        early = early[company.first_day[early] * 86_400 < self.config.attack_start]
        branch = early[company.site[early] > 0]
        return int(rng.choice(branch if len(branch) else early))

    def moments(self, site: int, count: int, office: float, rng: np.random.Generator) -> FloatArray:
        """Sorted moments of the attack's days: a share in the site's working hours, others at any hour."""
        total = office * self.clocks.total[site] + (1 - office) * self.clocks.total[self.clocks.always]
        low, high = np.interp([self.config.attack_start, self.config.end - 3600], self.clocks.grid, total)
        found: FloatArray = np.interp(np.sort(rng.uniform(low, high, count)), total, self.clocks.grid)
        return found

    def strange_targets(
        self, src: int, count: int, rng: np.random.Generator, *, home: float = 0.7, appeal: float = 6.0
    ) -> list[int]:
        """Hosts that the source never contacts: mostly of its site, servers likelier than workstations."""
        company = self.company
        pool = company.of(WORKSTATION, SERVER, SHARED, CONTROLLER)
        pool = np.setdiff1d(pool, np.append(self.known_targets(src), src))
        weight = np.where(company.role[pool] == WORKSTATION, 1.0, appeal)
        near = company.site[pool] == company.site[src]
        for chosen, share in ((near, home), (~near, 1 - home)):
            if weight[chosen].sum():
                weight[chosen] *= share / weight[chosen].sum()
        count = min(count, int(np.count_nonzero(weight)))
        found: list[int] = rng.choice(pool, count, replace=False, p=weight / weight.sum()).tolist()
        return found

    def admin_near(self, host: int, rng: np.random.Generator) -> int:
        """An admin of the host's site."""
        return int(rng.choice(self.company.of(ADMIN, site=int(self.company.site[host]))))


def attack_of(
    style: str, scene: Scene, moves: Sequence[Move], rng: np.random.Generator, *, ntlm: float = 0.6
) -> Attack:
    """Moves as events: failures first, then one to three successes; a share of the steps uses NTLM."""
    moves = [move for move in moves if move.step.src != move.step.dst]
    failures = np.array([move.failures for move in moves], dtype=np.int64)
    denied = np.array([move.denied for move in moves], dtype=np.bool_)
    failures = np.where(denied, np.maximum(failures, 1), failures)
    successes = np.where(denied, 0, rng.integers(1, 4, len(moves)))
    count = failures + successes
    row = np.repeat(np.arange(len(moves)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    outcome = place >= failures[row]
    shift = np.where(outcome, rng.exponential(40, len(row)), -rng.uniform(4, 240, len(row)))
    begin = np.array([move.time for move in moves])[row]
    time = np.clip(np.ceil(begin + shift), scene.config.attack_start, scene.config.end - 1).astype(np.int64)
    (time, row), first = np.unique(np.stack([time, row]), axis=1, return_index=True)
    outcome = outcome[first]
    package = np.where(rng.random(len(moves)) < ntlm, NTLM, KERBEROS)
    steps = tuple(move.step for move in moves)
    events = Events.of(
        time=time,
        src=np.array([step.src for step in steps], dtype=np.int64)[row],
        dst=np.array([step.dst for step in steps], dtype=np.int64)[row],
        account=np.array([step.account for step in steps], dtype=np.int64)[row],
        service=np.array([SERVICE[step.protocol] for step in steps], dtype=np.int64)[row],
        package=package[row],
        outcome=outcome,
        label=1,
    )
    kept = _unclaimed(events, scene.benign)
    return Attack(style, events.take(kept), row[kept], steps)


def lateral(src: int, dst: int, account: int, rng: np.random.Generator, name: str) -> Step:
    """A movement over one of the usual protocols."""
    protocol = str(rng.choice(list(LATERAL)))
    return Step(src, dst, account, LATERAL[protocol], protocol, name)


def look(src: int, dst: int, account: int, rng: np.random.Generator) -> Step:
    """A look at a host or its shares."""
    return Step(src, dst, account, str(rng.choice(["T1018", "T1135"])), "smb", "discovery")


def _unclaimed(events: Events, benign: Events) -> IntArray:
    """Events with a second, hosts and account of their own: a row of the ground truth names one event."""
    near = benign.take(np.isin(benign.time, events.time))
    keys = [
        np.concatenate([getattr(part, name) for part in (near, events)])
        for name in ("time", "src", "dst", "account")
    ]
    _, first = np.unique(np.stack(keys), axis=1, return_index=True)
    kept: IntArray = np.sort(first[first >= len(near)]) - len(near)
    return kept
