"""What people do out of the ordinary: admins' jobs, help at a desk, remote desktops, borrowed machines."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.activity import Clocks, Habits
from entente_lab.simulator.company import (
    ADMIN,
    CONTROLLER,
    DAY,
    DEPLOYER,
    SERVER,
    WORKSTATION,
    IntArray,
    SimulationConfig,
)
from entente_lab.simulator.life.people import People
from entente_lab.simulator.life.work import Work, occasions

REPAIR, SERVER_ROUND, DESK_ROUND = range(3)
JOBS = (0.5, 0.3, 0.15, 0.05)
"""Shares of admins' jobs: one or two machines, 3-15 servers, 5-30 and 20-80 workstations."""
SIZES = ((1, 3), (3, 16), (5, 31), (20, 81))
ADMIN_SLIPS = 0.04
"""Share of an admin's contacts that fail: wrong account, machine switched off."""


def admin_jobs(config: SimulationConfig, people: People, clocks: Clocks, work: Work) -> None:
    company, rng, life = people.company, work.rng, config.life
    admins = company.of(ADMIN)
    who, moments = occasions(life.admin_jobs, clocks, company.site[admins], rng)
    for admin, moment in zip(admins[who].tolist(), moments.tolist(), strict=True):
        home = int(company.site[admin])
        site = int(rng.integers(len(company.site_names))) if rng.random() < life.jobs_elsewhere else home
        job = int(rng.choice(len(JOBS), p=JOBS))
        targets = _machines(people, job, site, rng)
        begin = moment + rng.uniform(0, rng.uniform(900, 5400), len(targets))
        src, jump = admin, people.jump_host(site)
        if job == SERVER_ROUND and jump >= 0 and rng.random() < life.jobs_over_jump_host:
            work.add(moment - 120, admin, jump, admin, "rdp", mean=2, failed=ADMIN_SLIPS)
            src = jump
        work.add(begin, src, targets, admin, "rdp smb wmi winrm", mean=2, failed=ADMIN_SLIPS)


def _machines(people: People, job: int, site: int, rng: np.random.Generator) -> IntArray:
    company = people.company
    role = SERVER if job == SERVER_ROUND or (job == REPAIR and rng.random() < 0.3) else WORKSTATION
    pool = company.of(role, site=site)
    if job == DESK_ROUND and rng.random() < 0.7:
        department = company.department[rng.choice(pool)]
        pool = pool[company.department[pool] == department]
    size = min(len(pool), int(rng.integers(*SIZES[job])))
    chosen: IntArray = rng.choice(pool, size, replace=False)
    return chosen


def helpdesk(config: SimulationConfig, people: People, clocks: Clocks, work: Work) -> None:
    """An admin logs on where a user sits; new machines get such a visit on their first morning."""
    company, rng = people.company, work.rng
    workers = people.workers()
    who, moments = occasions(config.life.helpdesk / 100, clocks, company.site[workers], rng)
    new = np.flatnonzero((company.first_day > 0) & (company.role == WORKSTATION))
    first = company.first_day[new] * DAY + (10 - company.hours[company.site[new]]) * 3600
    desks = np.concatenate([workers[who], new])
    moments = np.concatenate([moments, first + rng.uniform(0, 7200, len(new))])
    there = moments >= company.first_day[desks] * DAY
    for desk, moment in zip(desks[there].tolist(), moments[there].tolist(), strict=True):
        site = int(company.site[desk])
        admins = company.of(ADMIN, site=site)
        admin = int(admins[min(rng.geometric(0.5), len(admins)) - 1])
        targets = [int(company.of(CONTROLLER, site=site)[0])]
        if rng.random() < 0.5:
            targets.append(int(company.of(DEPLOYER)[0]))
        if rng.random() < 0.2:
            targets.append(int(rng.choice(company.of(SERVER, site=site))))
        work.add(moment + rng.uniform(0, 1800, len(targets)), desk, targets, admin, "smb ldap", mean=2)


def remote_desktops(config: SimulationConfig, people: People, clocks: Clocks, work: Work) -> None:
    """Power users work on a server of theirs, and that server contacts others in their name."""
    company, rng, life = people.company, work.rng, config.life
    users = people.power
    site = company.site[users]
    servers = company.of(SERVER)
    homes, usual = [], []
    for user in users.tolist():
        near = servers[company.site[servers] == company.site[user]]
        kin = servers[company.function[servers] == company.function[user]]
        homes.append(int(rng.choice(near)))
        usual.append(rng.choice(np.concatenate([near, kin]), 4))
    who, moments = occasions(life.pivots, clocks, site, rng)
    for number, moment in zip(who.tolist(), moments.tolist(), strict=True):
        user = int(users[number])
        if moment < company.first_day[user] * DAY:
            continue
        account = user if people.privileged[user] < 0 else int(people.privileged[user])
        home = int(rng.choice(servers)) if rng.random() < life.strange_pivots else homes[number]
        work.add(moment, user, home, account, "rdp", mean=1.5)
        count = int(rng.integers(1, 5))
        strange = rng.random(count) < life.strange_pivots
        targets = np.where(strange, rng.choice(servers, count), rng.choice(usual[number], count))
        begin = moment + rng.uniform(60, 7200, count)
        work.add(begin, home, targets, account, "smb sql https", mean=2)


def borrowed_machines(
    config: SimulationConfig, people: People, clocks: Clocks, habits: Habits, work: Work
) -> None:
    """Somebody sits at another's machine for some hours and does what they always do, from there."""
    company, rng = people.company, work.rng
    workers = people.workers()
    order = np.argsort(habits.src, kind="stable")
    src, dst = habits.src[order], habits.dst[order]
    who, moments = occasions(config.life.borrowed / 100, clocks, company.site[workers], rng)
    for guest, moment in zip(workers[who].tolist(), moments.tolist(), strict=True):
        near = workers[company.department[workers] == company.department[guest]]
        desk = int(rng.choice(near if rng.random() < 0.7 else workers))
        if desk == guest or moment < company.first_day[[desk, guest]].max() * DAY:
            continue
        low, high = np.searchsorted(src, [guest, guest + 1])
        if high > low:
            targets = rng.choice(dst[low:high], int(rng.integers(3, 9)))
            work.add(moment + rng.uniform(0, 3 * 3600, len(targets)), desk, targets, guest, "smb https ldap")
