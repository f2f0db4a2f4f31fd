"""Who sits where, under which accounts, and on which days."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entente_lab.simulator.activity import BATCH, REMOTE, RUN_AS, SERVICE, Events, Habits
from entente_lab.simulator.company import (
    ADMIN,
    COMMON,
    DAY,
    DOMAIN,
    FUNCTIONS,
    JUMP,
    SERVER,
    SHORT,
    WORKSTATION,
    Company,
    IntArray,
    SimulationConfig,
)

MANAGEMENT = np.array([SERVICE[name] for name in ("rdp", "wmi", "winrm", "ssh")])
"""What admins do with their admin account, from their own machine."""
PER_SHARED = 4
"""People without a machine of their own for each shared machine; as many others come by."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The company with its jump hosts and all its accounts, and what belongs to whom."""

    company: Company
    shown_role: IntArray
    """Role of each host as hosts.csv tells it; a shared machine otherwise counts as a workstation."""
    everyday: IntArray
    """Account with which a host's owner does ordinary work."""
    privileged: IntArray
    """The owner's account for run-as, -1 for most."""
    seated: IntArray
    """[shared machine, 2 * PER_SHARED]: accounts that take turns there."""
    shared: IntArray
    """The shared machines."""
    power: IntArray
    """Workstations of power users."""
    applications: IntArray
    """Service account per line of business."""
    inventory: int
    away: NDArray[np.bool_]
    """[host, day]: its owner is absent."""

    def jump_host(self, site: int) -> int:
        """The site's, else the head office's, else none (-1)."""
        for place in (site, 0):
            found = self.company.of(JUMP, site=place)
            if len(found):
                return int(found[0])
        return -1

    def workers(self, site: int | None = None) -> IntArray:
        return self.company.of(WORKSTATION, site=site)


def settle(config: SimulationConfig, company: Company, rng: np.random.Generator) -> People:
    life = config.life
    role, names = company.role.copy(), company.names.astype(object)
    for site in range(len(company.site_names)):
        servers = company.of(SERVER, site=site)
        # The first backs up and the last monitors; a small site uses the head office's jump host.
        chosen = servers[len(servers) // 2 :][: 1 + (site == 0)] if len(servers) >= 6 else servers[:0]
        role[chosen] = JUMP
        for host in chosen.tolist():
            names[host] = names[host].replace(f"-{SHORT[SERVER]}", f"-{SHORT[JUMP]}")
    workers = company.of(WORKSTATION)
    shared = workers[rng.random(len(workers)) < life.shared_machines]
    own = np.setdiff1d(workers, shared)
    trusted = own[rng.random(len(own)) < life.second_accounts]
    power = own[rng.random(len(own)) < life.power_users]
    admins = company.of(ADMIN)

    accounts = company.accounts.tolist()
    for host in np.flatnonzero(role == JUMP).tolist():
        accounts[host] = f"{names[host]}$@{DOMAIN}"

    def add(new: list[str]) -> IntArray:
        first = len(accounts)
        accounts.extend(f"{name}@{DOMAIN}" for name in new)
        return np.arange(first, len(accounts))

    applications = add([f"svc-app{i}" for i in range(FUNCTIONS)])
    inventory = int(add(["svc-inventory"])[0])
    everyday = np.arange(len(company))
    everyday[admins] = add([f"U{host}" for host in admins.tolist()])
    privileged = np.full(len(company), -1)
    privileged[trusted] = add([f"P{host}" for host in trusted.tolist()])
    seated = np.empty((len(shared), 2 * PER_SHARED), dtype=np.int64)
    for row, host in enumerate(shared.tolist()):
        seated[row, :PER_SHARED] = add([f"S{host}x{i}" for i in range(PER_SHARED)])
        near = own[company.department[own] == company.department[host]]
        seated[row, PER_SHARED:] = rng.choice(near if len(near) else own, PER_SHARED)
    shown = role.copy()
    shown[shared] = COMMON
    return People(
        company=replace(company, role=role, names=names.astype(np.str_), accounts=np.array(accounts)),
        shown_role=shown,
        everyday=everyday,
        privileged=privileged,
        seated=seated,
        shared=shared,
        power=power,
        applications=applications,
        inventory=inventory,
        away=_absences(config, company, own, rng),
    )


def draw_holidays(config: SimulationConfig, company: Company, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[site, local day from the day before day 0 to two days after the end]."""
    days = int(np.ceil(config.days)) + 3
    found: NDArray[np.bool_] = rng.random((len(company.site_names), days)) < config.life.holidays
    return found


def _absences(
    config: SimulationConfig, company: Company, workers: IntArray, rng: np.random.Generator
) -> NDArray[np.bool_]:
    days = int(np.ceil(config.days))
    away = np.zeros((len(company), days), dtype=np.bool_)
    left = np.zeros(len(workers), dtype=np.int64)
    for day in range(days):
        gone = rng.random(len(workers)) < config.life.absences
        left = np.where(gone & (left == 0), rng.geometric(1 / config.life.absence_days, len(workers)), left)
        away[workers, day] = left > 0
        left = np.maximum(left - 1, 0)
    return away


def sign_habits(config: SimulationConfig, people: People, habits: Habits, rng: np.random.Generator) -> Habits:
    """Give habits the accounts under which they run: ordinary ones, run-as and service accounts."""
    company, account = people.company, habits.account.copy()
    own = habits.account == habits.src
    admin = own & (company.role[habits.src] == ADMIN) & ~np.isin(habits.service, MANAGEMENT)
    account[admin] = people.everyday[habits.src[admin]]
    to_server = company.role[habits.dst] == SERVER
    run_as = own & (people.privileged[habits.src] >= 0) & to_server
    run_as &= rng.random(len(habits)) < config.life.run_as
    account[run_as] = people.privileged[habits.src[run_as]]
    service = own & (company.role[habits.src] == SERVER) & (company.function[habits.src] >= 0) & to_server
    service &= rng.random(len(habits)) < config.life.service_accounts
    account[service] = people.applications[company.function[habits.src[service]]]
    return replace(habits, account=account)


def seat(config: SimulationConfig, people: People, events: Events, rng: np.random.Generator) -> Events:
    """Absent people do nothing; at shared machines the person changes from shift to shift."""
    day = np.minimum(events.time // int(DAY), people.away.shape[1] - 1)
    events = events.take(~people.away[events.src, day])
    block = (events.time / (config.life.shift_hours * 3600)).astype(np.int64)
    turns = rng.integers(0, people.seated.shape[1], (len(people.shared), int(block.max(initial=0)) + 1))
    row = np.full(len(people.company), -1)
    row[people.shared] = np.arange(len(people.shared))
    row = row[events.src]
    here = (row >= 0) & (events.account == events.src)
    account = events.account.copy()
    account[here] = people.seated[row[here], turns[row[here], block[here]]]
    return replace(events, account=account)


def name_logons(people: People, events: Events) -> Events:
    """Logon types: run-as is NewCredentials, part of what services do is Batch."""
    company, logon = people.company, events.logon.copy()
    remote = logon == REMOTE
    second = np.zeros(len(company.accounts), dtype=np.bool_)
    second[people.privileged[people.privileged >= 0]] = True
    logon[second[events.account] & ~remote & (company.role[events.src] == WORKSTATION)] = RUN_AS
    service = np.char.startswith(company.accounts, "svc-")[events.account]
    # A pair keeps to one logon type: what is a scheduled task today is one tomorrow.
    logon[service & ~remote & ((events.src * 31 + events.dst * 17 + events.account) % 3 == 0)] = BATCH
    return replace(events, logon=logon)
