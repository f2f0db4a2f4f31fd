"""Who works where: sites, hosts with their roles, departments and accounts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from entente.errors import UsageError
from entente_lab.simulator.life.settings import Life

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DAY = 86_400.0
MIN_SITE = 10
DOMAIN = "CORP"
FUNCTIONS = 5  # lines of business that exist at every site and share applications at the head office

WORKSTATION, SERVER, CONTROLLER, ADMIN, SHARED, SCANNER, DEPLOYER, JUMP, COMMON = range(9)
ROLES: Final = (
    "workstation",
    "server",
    "domain-controller",
    "admin",
    "shared-service",
    "scanner",
    "deployer",
    "jump-host",
    "shared-workstation",
)
SHORT: Final = ("ws", "srv", "dc", "adm", "app", "scan", "dep", "jump", "pool")
SERVICE_ACCOUNTS: Final = ("svc-scan", "svc-deploy", "svc-backup", "svc-monitor")

SITE_NAMES: Final = (
    "headquarters", "lyon", "porto", "graz", "turku", "delft",
    "bergen", "brno", "cork", "gdansk", "tartu", "vejle",
)  # fmt: skip
HOURS_EAST: Final = (0, 1, -5, 8, 2, -8, 5, -3, 9, 3, -6, 10)  # of the head office
PRESETS: Final = ("classic", "lifelike")
RED_TEAMS: Final = {
    "campaign": "one foothold in a branch, then step by step into every site",
    "sessions": "a few busy sittings with stolen admin credentials",
    "spread": "one credential, within hours from every reached host to many others",
    "slow-chain": "one contact every few hours, moving on, with what each host has to steal",
    "living-off-admin-paths": "an admin's machine, account, hours and usual ways, a little further each day",
    "insider": "a user with a valid account who opens what is none of the department's business",
}
"""Styles of red teams, each with its sentence."""


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """Size and character of the company; everything else follows from the seed."""

    sites: int = 4
    hosts: int = 800
    days: float = 8.0
    seed: int = 0
    activity: float = 1.0
    """Factor on the number of habitual events; the pairs stay the same."""
    novelty: float = 1.0
    """Factor on benign one-off work: scans, roll-outs, odd jobs, travellers."""
    quiet: float = 0.6
    """Share of the days, the first ones, without any attack."""
    red_teams: tuple[str, ...] = ("campaign",)
    """Styles of the attacks that take place (entente_lab.simulator.redteams); none at all is fine."""

    preset: str = "classic"
    """classic: the company of all figures published so far. lifelike: with everything `life` describes."""
    life: Life = field(default_factory=Life)
    """Parameters of the lifelike company."""

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise UsageError(f"no preset is called {self.preset!r}", remedy=f"Choose {' or '.join(PRESETS)}.")
        if self.preset == "classic" and self.life != Life():
            raise UsageError(
                "the classic company has no such parameters", remedy="Choose the lifelike preset."
            )
        unknown = [name for name in self.red_teams if name not in RED_TEAMS]
        if unknown or len(set(self.red_teams)) < len(self.red_teams):
            raise UsageError(
                f"no red team is called {unknown[0]!r}" if unknown else "a red team is named twice",
                remedy=f"Choose from {', '.join(RED_TEAMS)}.",
            )
        if not 1 <= self.sites <= 200:
            raise UsageError(f"{self.sites} sites cannot be simulated", remedy="Choose 1 to 200 sites.")
        if self.hosts < 2 * MIN_SITE * self.sites or self.hosts > 200_000:
            raise UsageError(
                f"{self.hosts} hosts do not fill {self.sites} sites",
                remedy=f"Choose at least {2 * MIN_SITE * self.sites} and at most 200000 hosts.",
            )
        if not 1 <= self.days <= 366:
            raise UsageError(f"{self.days} days cannot be simulated", remedy="Choose 1 to 366 days.")
        if not 0 <= self.quiet < 1 or self.activity <= 0 or self.novelty < 0 or self.seed < 0:
            raise UsageError(
                "quiet lies in [0, 1); activity is positive; novelty and seed are not negative",
                remedy="Leave them at their defaults: 0.6, 1, 1 and 0.",
            )

    @property
    def end(self) -> float:
        """Second at which the simulation ends."""
        return float(int(self.days * DAY))

    @property
    def attack_start(self) -> float:
        """Second before which there is no attack."""
        return float(np.ceil(self.quiet * self.end))


@dataclass(frozen=True, slots=True, eq=False)
class Company:
    """Hosts as parallel arrays; the account of host i is account i, service accounts come after."""

    site_names: tuple[str, ...]
    names: NDArray[np.str_]
    addresses: NDArray[np.str_]
    accounts: NDArray[np.str_]
    site: IntArray
    role: IntArray
    department: IntArray  # numbered over the company; -1 for hosts that belong to no department
    function: IntArray  # line of business of the department; -1 as above
    first_day: FloatArray  # day a host is first switched on, 0 for nearly all
    hours: FloatArray  # local time minus head-office time, per site

    def __len__(self) -> int:
        return len(self.names)

    def of(self, *roles: int, site: int | None = None) -> IntArray:
        """Hosts with one of the roles, at one site or everywhere."""
        chosen = np.isin(self.role, roles)
        if site is not None:
            chosen &= self.site == site
        return np.flatnonzero(chosen)

    def service_account(self, name: str) -> int:
        return len(self) + SERVICE_ACCOUNTS.index(name)


def site_sizes(sites: int, hosts: int) -> IntArray:
    """Sizes that fall off like i^-1.5: one head office, a few plants, many small branches."""
    share = np.arange(1, sites + 1, dtype=np.float64) ** -1.5
    size = np.maximum(MIN_SITE, np.floor(share / share.sum() * (hosts - MIN_SITE * sites)) + MIN_SITE)
    size[0] += hosts - size.sum()
    whole: IntArray = size.astype(np.int64)
    return whole


def build_company(config: SimulationConfig, rng: np.random.Generator) -> Company:
    sizes = site_sizes(config.sites, config.hosts)
    roles = [_site_roles(int(size), head_office=index == 0) for index, size in enumerate(sizes)]
    role = np.concatenate(roles)
    site = np.repeat(np.arange(config.sites), sizes)
    department, function = _departments(site, role, rng)
    first_day = np.zeros(config.hosts)
    hired = (role == WORKSTATION) & (rng.random(config.hosts) < min(0.3, 0.006 * config.days))
    first_day[hired] = rng.integers(1, max(2, int(config.days)), int(hired.sum()))
    site_names = tuple(SITE_NAMES[i] if i < len(SITE_NAMES) else f"site{i:03d}" for i in range(config.sites))
    within = np.concatenate([np.arange(size) for size in sizes])
    names = [f"{site_names[s]}-{SHORT[r]}{w:04d}" for s, r, w in zip(site, role, within, strict=True)]
    addresses = [
        f"10.{s}.{w // 250}.{w % 250 + 1}" if w < 62_500 else f"11.{s}.{w // 250 - 250}.{w % 250 + 1}"
        for s, w in zip(site.tolist(), within.tolist(), strict=True)
    ]
    return Company(
        site_names=site_names,
        names=np.array(names),
        addresses=np.array(addresses),
        accounts=np.array(_accounts(names, role)),
        site=site,
        role=role,
        department=department,
        function=function,
        first_day=first_day,
        hours=np.array([HOURS_EAST[i % len(HOURS_EAST)] for i in range(config.sites)], dtype=np.float64),
    )


def _site_roles(size: int, *, head_office: bool) -> IntArray:
    counts = {
        CONTROLLER: 1 + (size > 150) + size // 2000,
        ADMIN: max(1, round(0.012 * size)),
        SERVER: max(2, round(0.1 * size)),
    }
    if head_office:
        counts |= {SHARED: 6 + size // 100, SCANNER: 1, DEPLOYER: 1}
    fixed = np.repeat(list(counts), list(counts.values()))
    return np.concatenate([fixed, np.full(size - len(fixed), WORKSTATION)]).astype(np.int64)


def _departments(site: IntArray, role: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Every site has departments of about 25 workstations; its servers are shared out among them."""
    department = np.full(len(site), -1, dtype=np.int64)
    function = department.copy()
    total = 0
    for index in range(int(site.max()) + 1):
        workers = np.flatnonzero((site == index) & (role == WORKSTATION))
        count = max(2, round(len(workers) / 25))
        line = rng.permutation(np.arange(count) % FUNCTIONS)
        for members in (workers, np.flatnonzero((site == index) & (role == SERVER))):
            # The first `count` members cover every department, so that none is without a server.
            own = np.concatenate([np.arange(count), rng.integers(0, count, len(members))])[: len(members)]
            department[members], function[members] = total + own, line[own]
        total += count
    return department, function


def _accounts(names: list[str], role: IntArray) -> list[str]:
    accounts = []
    for number, (name, r) in enumerate(zip(names, role, strict=True)):
        if r == WORKSTATION:
            accounts.append(f"U{number}@{DOMAIN}")
        elif r == ADMIN:
            accounts.append(f"ADM{number}@{DOMAIN}")
        else:
            accounts.append(f"{name}$@{DOMAIN}")
    return accounts + [f"{service}@{DOMAIN}" for service in SERVICE_ACCOUNTS]
