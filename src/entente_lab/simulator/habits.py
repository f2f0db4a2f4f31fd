"""What every host does day by day, and how that drifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from entente_lab.simulator.activity import SERVICE, Clocks, Habits, join
from entente_lab.simulator.company import (
    ADMIN,
    CONTROLLER,
    DAY,
    DEPLOYER,
    SERVER,
    SHARED,
    WORKSTATION,
    Company,
    IntArray,
    SimulationConfig,
)

LATE = 0.3  # share of occasional habits that begin some time after the start
DRIFT_DAYS = 25.0  # mean life of an occasional habit


@dataclass(frozen=True, slots=True)
class HabitBuilder:
    """Draws habits between sets of hosts."""

    config: SimulationConfig
    company: Company
    clocks: Clocks
    rng: np.random.Generator

    def every(
        self, src: IntArray, dst: IntArray, services: str, rate: float, *, share: float = 1.0, clock: int = -1
    ) -> Habits:
        """Each source with each destination, or with a random share of them."""
        s, d = np.repeat(src, len(dst)), np.tile(dst, len(src))
        chosen = (self.rng.random(len(s)) < share) & (s != d)
        return self.pairs(s[chosen], d[chosen], services, rate, clock=clock)

    def some(
        self,
        src: IntArray,
        pool: IntArray,
        services: str,
        rate: float,
        *,
        mean: float,
        clock: int = -1,
        drifts: bool = False,
    ) -> Habits:
        """Each source with a few of a pool, the pool's first hosts being the popular ones."""
        if not len(pool) or not len(src):
            return self.pairs(src[:0], pool[:0], services, rate)
        popularity = 1 / (1.5 + np.arange(len(pool)))
        counts = self.rng.poisson(mean, len(src))
        s = np.repeat(src, counts)
        d = self.rng.choice(pool, len(s), p=popularity / popularity.sum())
        pair = np.unique(s * len(self.company) + d)
        s, d = np.divmod(pair, len(self.company))
        return self.pairs(s[s != d], d[s != d], services, rate, clock=clock, drifts=drifts)

    def pairs(
        self,
        src: IntArray,
        dst: IntArray,
        services: str,
        rate: float,
        *,
        clock: int = -1,
        drifts: bool = False,
        account: int = -1,
    ) -> Habits:
        """The given pairs with heavy-tailed rates around `rate`; clock -1 = the source's site's hours."""
        rng, count = self.rng, len(src)
        born = self.company.first_day[src] * DAY
        died = np.full(count, np.inf)
        if drifts:
            late = rng.random(count) < LATE
            born = np.maximum(born, np.where(late, rng.uniform(0, self.config.end, count), 0))
            died = born + rng.exponential(DRIFT_DAYS * DAY, count)
        choice = np.array([SERVICE[name] for name in services.split()])
        return Habits(
            src=src,
            dst=dst,
            account=src if account < 0 else np.full(count, account),
            service=choice[rng.integers(0, len(choice), count)],
            rate=rng.lognormal(np.log(rate) - 0.32, 0.8, count),
            clock=self.company.site[src] if clock < 0 else np.full(count, clock),
            born=born,
            died=died,
        )


def build_habits(
    config: SimulationConfig, company: Company, clocks: Clocks, rng: np.random.Generator
) -> Habits:
    build = HabitBuilder(config, company, clocks, rng)
    parts: list[Habits] = []
    for site in range(len(company.site_names)):
        parts += _site_life(build, site)
    for department in range(int(company.department.max()) + 1):
        parts += _department_life(build, department)
    parts += _head_office_life(build)
    return join(parts)


def _site_life(build: HabitBuilder, site: int) -> list[Habits]:
    company, clocks = build.company, build.clocks
    workers, servers = company.of(WORKSTATION, site=site), company.of(SERVER, site=site)
    controllers, admins = company.of(CONTROLLER, site=site), company.of(ADMIN, site=site)
    backup, monitor = servers[:1], servers[-1:]
    machines = np.concatenate([servers, admins])
    return [
        build.every(workers, controllers, "ldap smb", 9.0),
        build.every(machines, controllers, "ldap", 8.0, clock=clocks.always),
        build.every(admins, servers, "rdp winrm smb ssh", 0.8, share=0.7),
        build.some(admins, workers, "rdp smb wmi", 0.5, mean=min(12.0, 0.1 * len(workers)), drifts=True),
        # Printers and the like: servers everybody at the site may use, whatever the department.
        build.some(workers, servers[:4], "print smb http", 2.0, mean=1.2),
        build.some(workers, servers, "smb http sql", 0.25, mean=0.8, drifts=True),
        build.pairs(
            np.repeat(backup, len(servers) - 1),
            servers[1:],
            "smb",
            4.0,
            clock=clocks.night,
            account=company.service_account("svc-backup"),
        ),
        build.pairs(
            np.repeat(monitor, len(servers) - 1),
            servers[:-1],
            "wmi",
            10.0,
            clock=clocks.always,
            account=company.service_account("svc-monitor"),
        ),
    ]


def _department_life(build: HabitBuilder, department: int) -> list[Habits]:
    company = build.company
    members = np.flatnonzero(company.department == department)
    workers = members[company.role[members] == WORKSTATION]
    servers = members[company.role[members] == SERVER]
    if not len(workers):
        return []
    site, function = company.site[members[0]], company.function[members[0]]
    kin = np.flatnonzero((company.function == function) & (company.role == SERVER))
    kin = np.concatenate([kin[company.site[kin] == site], kin[company.site[kin] == 0]])
    return [
        build.every(workers, servers, "smb http sql", 4.0, share=0.85),
        build.some(workers, build.rng.permutation(kin), "smb http sql", 0.3, mean=3.0, drifts=True),
        build.some(workers, workers, "smb", 0.4, mean=0.5, drifts=True),
        build.some(servers, servers, "sql smb", 6.0, mean=1.0, clock=build.clocks.always),
        build.some(servers, kin, "sql http", 2.0, mean=1.0, clock=build.clocks.always, drifts=True),
    ]


def _head_office_life(build: HabitBuilder) -> list[Habits]:
    """Mail, proxy, portal for all; applications for one line of business at all sites."""
    company, clocks = build.company, build.clocks
    workers, servers, shared = company.of(WORKSTATION), company.of(SERVER), company.of(SHARED)
    for_all, applications = shared[:4], shared[4:]
    away = workers[company.site[workers] != 0]
    controllers, admins = company.of(CONTROLLER, site=0), company.of(ADMIN, site=0)
    branch_controllers = company.of(CONTROLLER)[len(controllers) :]
    deployer = company.of(DEPLOYER)
    parts = [
        build.every(workers, for_all, "https mail proxy", 5.0, share=0.9),
        build.every(away, controllers, "ldap", 1.0, share=0.6),
        build.every(branch_controllers, controllers, "ldap smb", 30.0, clock=clocks.always),
        build.every(servers, for_all[:2], "https", 2.0, share=0.5, clock=clocks.always),
        build.every(servers, deployer, "http", 1.0, clock=clocks.night),
        build.every(workers, deployer, "http", 0.6, share=0.8),
        build.some(admins, servers, "rdp winrm ssh", 0.4, mean=0.15 * len(servers), drifts=True),
    ]
    functions = company.function[workers]
    for function in range(int(functions.max()) + 1):
        own = applications[np.arange(len(applications)) % (int(functions.max()) + 1) == function]
        parts.append(build.every(workers[functions == function], own, "https sql", 3.0, share=0.8))
    parts.append(build.some(workers, applications, "https", 0.25, mean=1.2, drifts=True))
    return parts
