"""Machines that touch many others: scanner, patches, deployments, inventory; servers that move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente_lab.simulator.activity import Habits, join
from entente_lab.simulator.company import (
    DAY,
    DEPLOYER,
    SCANNER,
    SERVER,
    WORKSTATION,
    SimulationConfig,
)
from entente_lab.simulator.life.people import People
from entente_lab.simulator.life.work import Work

RINGS = ((0, 0.1), (2, 0.3), (7, 0.6))
"""Days after the start of a patch round, share of the machines."""
INVENTORIED = 0.3
"""Share of the workstations that an inventory looks at."""


def scans(config: SimulationConfig, people: People, work: Work) -> None:
    """Each night the scanner sweeps the next block of addresses, one host after another."""
    company, rng = people.company, work.rng
    scanner, account = company.of(SCANNER)[0], company.service_account("svc-scan")
    blocks = np.array_split(np.arange(len(company)), max(1, round(config.life.scan_days)))
    first = int(rng.integers(len(blocks)))
    for night in range(int(np.ceil(config.days))):
        block = blocks[(first + night) % len(blocks)]
        begin = night * DAY + 3600 + np.arange(len(block)) / len(block) * 3 * 3600
        failed = config.life.unreachable
        work.add(begin, scanner, block, account, "smb winrm ssh", mean=3, failed=failed)


def patches(config: SimulationConfig, people: People, work: Work) -> None:
    """Patch rounds in rings: a pilot, two nights later a third, a week later the rest."""
    company, rng, every = people.company, work.rng, config.life.patch_days
    deployer, account = company.of(DEPLOYER)[0], company.service_account("svc-deploy")
    machines = company.of(WORKSTATION, SERVER)
    begin = rng.uniform(0, every) - every
    while begin < config.days:
        order = rng.permutation(machines)
        edges = np.cumsum([0.0, *(share for _, share in RINGS)]) * len(order)
        for number, (later, _) in enumerate(RINGS):
            ring = order[int(edges[number]) : int(edges[number + 1])]
            night = int(begin + later) * DAY + 20 * 3600 + rng.uniform(0, 4 * 3600, len(ring))
            work.add(night, deployer, ring, account, "smb", mean=4, failed=config.life.unreachable)
        begin += every


def deployments(config: SimulationConfig, people: People, work: Work) -> None:
    """Software for a department, or for a part of a site; a new machine gets its own at once."""
    company, rng = people.company, work.rng
    deployer, account = company.of(DEPLOYER)[0], company.service_account("svc-deploy")
    for _ in range(rng.poisson(config.life.deployments * config.days)):
        lead = int(rng.choice(company.of(WORKSTATION)))
        same = company.department == company.department[lead]
        if rng.random() < 0.3:
            same = (company.site == company.site[lead]) & (rng.random(len(company)) < rng.uniform(0.1, 0.4))
        machines = np.flatnonzero(same & (company.role == WORKSTATION))
        begin = rng.uniform(0, config.end) + rng.uniform(0, rng.uniform(300, 3600), len(machines))
        failed = config.life.unreachable
        work.add(begin, deployer, machines, account, "smb winrm", mean=3, failed=failed)
    new = np.flatnonzero(company.first_day > 0)
    begin = company.first_day[new] * DAY + 9 * 3600 - company.hours[company.site[new]] * 3600
    work.add(begin + rng.uniform(0, 7200, len(new)), deployer, new, account, "smb winrm", mean=4)


def inventories(config: SimulationConfig, people: People, work: Work) -> None:
    """Early in the morning the head office's monitoring server asks all servers and part of the rest."""
    company, rng, every = people.company, work.rng, config.life.inventory_days
    monitor = company.of(SERVER, site=0)[-1]
    begin = rng.uniform(0, every)
    while begin < config.days:
        workers = company.of(WORKSTATION)
        targets = np.concatenate([company.of(SERVER), workers[rng.random(len(workers)) < INVENTORIED]])
        moment = int(begin) * DAY + 5 * 3600 + rng.uniform(0, 2 * 3600, len(targets))
        work.add(moment, monitor, targets, people.inventory, "wmi", mean=2, failed=config.life.unreachable)
        begin += every


def migrate(config: SimulationConfig, people: People, habits: Habits, work: Work) -> Habits:
    """A server is replaced: it copies itself to its successor, and its users follow within days."""
    company, rng = people.company, work.rng
    for _ in range(rng.poisson(config.life.migrations * config.days * max(1.0, len(company) / 800))):
        old = int(rng.choice(company.of(SERVER)))
        peers = company.of(SERVER, site=int(company.site[old]))
        peers = peers[peers != old]
        if not len(peers):
            continue
        new, moment = int(rng.choice(peers)), rng.uniform(0, config.end)
        work.add(moment - rng.uniform(0, DAY, 12), old, new, old, "smb", mean=3)
        follows = (habits.dst == old) & (company.role[habits.src] == WORKSTATION)
        follows &= rng.random(len(habits)) < 0.8
        at = moment + rng.exponential(DAY, len(habits))
        moved = {"dst": np.full(len(habits), new), "born": np.maximum(habits.born, at)}
        successor = replace(habits, **moved)
        rows = np.flatnonzero(follows & (at < habits.died))
        habits = replace(habits, died=np.where(follows, np.minimum(habits.died, at), habits.died))
        chosen = {name: getattr(successor, name)[rows] for name in successor.__dataclass_fields__}
        habits = join([habits, Habits(**chosen)])
    return habits
