"""Benign work that nobody saw before: scans, pushes, roll-outs, odd jobs, travellers."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.activity import PACKAGE_SHARES, PACKAGES, SERVICE, Clocks, Events, Habits, join
from entente_lab.simulator.company import (
    ADMIN,
    DAY,
    DEPLOYER,
    SCANNER,
    SERVER,
    WORKSTATION,
    Company,
    FloatArray,
    IntArray,
    SimulationConfig,
)


def build_roll_outs(
    config: SimulationConfig, company: Company, clocks: Clocks, rng: np.random.Generator
) -> Habits:
    """About every other day a server gets a new use, and part of a site moves to it within a day."""
    parts = []
    for _ in range(1 + rng.poisson(0.6 * config.days * config.novelty)):
        server = rng.choice(company.of(SERVER))
        workers = company.of(WORKSTATION, site=int(company.site[server]))
        workers = workers[rng.random(len(workers)) < rng.uniform(0.15, 0.5)]
        count = len(workers)
        start = rng.uniform(0, config.end)
        parts.append(
            Habits(
                src=workers,
                dst=np.full(count, server),
                account=workers,
                service=np.full(count, SERVICE["https"]),
                rate=rng.lognormal(0.3, 0.6, count),
                clock=company.site[workers],
                born=np.maximum(start + rng.exponential(DAY / 2, count), company.first_day[workers] * DAY),
                died=np.full(count, np.inf),
            )
        )
    return join(parts)


def draw_one_offs(
    config: SimulationConfig, company: Company, clocks: Clocks, rng: np.random.Generator
) -> Events:
    parts = [
        _scans(config, company, rng),
        _pushes(config, company, rng),
        *_odd_jobs(config, company, clocks, rng),
        *_travellers(config, company, clocks, rng),
    ]
    return join(parts)


def _scans(config: SimulationConfig, company: Company, rng: np.random.Generator) -> Events:
    """The vulnerability scanner visits a sample of all hosts at night, in four hours, three ports each."""
    nights = np.arange(int(np.ceil(config.days)))
    per_night = max(4, int(0.03 * config.novelty * len(company)))
    target = rng.integers(0, len(company), len(nights) * per_night)
    begin = np.repeat(nights * DAY + 3600, per_night) + rng.uniform(0, 4 * 3600, len(target))
    src = np.full(len(target), company.of(SCANNER)[0])
    account = np.full(len(target), company.service_account("svc-scan"))
    ports = np.array([SERVICE[name] for name in ("smb", "winrm", "ssh")])
    return _repeated(config, rng, begin, src, target, account, ports[np.arange(len(target)) % 3], 3)


def _pushes(config: SimulationConfig, company: Company, rng: np.random.Generator) -> Events:
    """On some nights the deployment server installs software on part of one site's machines."""
    begins, targets = [], []
    for night in range(int(np.ceil(config.days))):
        site = int(rng.integers(0, len(company.site_names)))
        machines = company.of(WORKSTATION, SERVER, site=site)
        machines = machines[rng.random(len(machines)) < min(1.0, 0.2 * config.novelty)]
        begins.append(night * DAY + 20 * 3600 + rng.uniform(0, 3 * 3600, len(machines)))
        targets.append(machines)
    begin, target = np.concatenate(begins), np.concatenate(targets)
    src = np.full(len(target), company.of(DEPLOYER)[0])
    account = np.full(len(target), company.service_account("svc-deploy"))
    return _repeated(config, rng, begin, src, target, account, np.full(len(target), SERVICE["smb"]), 4)


def _odd_jobs(
    config: SimulationConfig, company: Company, clocks: Clocks, rng: np.random.Generator
) -> list[Events]:
    """An admin repairs, inventories or migrates: a handful of hosts, now and then at another site."""
    parts = []
    admins = company.of(ADMIN)
    remote = np.array([SERVICE[name] for name in ("rdp", "smb", "wmi", "winrm")])
    for _ in range(rng.poisson(3.0 * config.days * config.novelty * max(1.0, len(company) / 800))):
        admin = int(rng.choice(admins))
        site = int(company.site[admin]) if rng.random() < 0.8 else int(rng.integers(len(company.site_names)))
        pool = company.of(WORKSTATION, SERVER, site=site)
        target = rng.choice(pool, int(rng.integers(2, 9)), replace=False)
        begin = _in_hours(clocks, int(company.site[admin]), rng) + rng.uniform(0, 3600, len(target))
        src = np.full(len(target), admin)
        parts.append(_repeated(config, rng, begin, src, target, src, rng.choice(remote, len(target)), 2))
    return parts


def _travellers(
    config: SimulationConfig, company: Company, clocks: Clocks, rng: np.random.Generator
) -> list[Events]:
    """Somebody visits another site, or helps a colleague there: the exceptions to every rule of thumb."""
    parts = []
    workers = company.of(WORKSTATION)
    for _ in range(rng.poisson(2.0 * config.days * config.novelty * max(1.0, len(company) / 800))):
        worker = int(rng.choice(workers))
        site = int(rng.integers(len(company.site_names)))
        pool = company.of(SERVER, site=site)
        if rng.random() < 0.25:
            pool = company.of(WORKSTATION, site=site)
        target = rng.choice(pool, min(len(pool), int(rng.integers(1, 4))), replace=False)
        begin = _in_hours(clocks, site, rng) + rng.uniform(0, 4 * 3600, len(target))
        src = np.full(len(target), worker)
        parts.append(_repeated(config, rng, begin, src, target, src, np.full(len(target), SERVICE["smb"]), 3))
    return parts


def _in_hours(clocks: Clocks, site: int, rng: np.random.Generator) -> float:
    total = clocks.total[site]
    return float(np.interp(rng.random() * total[-1], total, clocks.grid))


def _repeated(
    config: SimulationConfig,
    rng: np.random.Generator,
    begin: FloatArray,
    src: IntArray,
    dst: IntArray,
    account: IntArray,
    service: IntArray,
    mean: int,
) -> Events:
    """Each contact as one to a few events within minutes; nothing after the end, no self loops."""
    row = np.repeat(np.arange(len(src)), rng.geometric(1 / mean, len(src)))
    time = (begin[row] + rng.exponential(60, len(row))).astype(np.int64)
    package = rng.choice(len(PACKAGES), len(src), p=PACKAGE_SHARES)
    kept = (time < config.end) & (src[row] != dst[row])
    time, row = time[kept], row[kept]
    return Events.of(time, src[row], dst[row], account[row], service[row], package[row])
