"""Log-ons that fail without malice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from entente_lab.simulator.activity import Clocks, Events, join
from entente_lab.simulator.company import (
    CONTROLLER,
    DAY,
    SERVER,
    WORKSTATION,
    IntArray,
    SimulationConfig,
)
from entente_lab.simulator.life.people import People
from entente_lab.simulator.life.work import Work, occasions

EXPIRED_HOURS = 2.0
"""How long after the first log-on of the day an expired password goes on failing."""


def wrong_links(config: SimulationConfig, people: People, clocks: Clocks, work: Work) -> None:
    """A link to a share that is not for everybody: a new pair that never succeeds."""
    company, rng = people.company, work.rng
    workers, servers = people.workers(), company.of(SERVER)
    who, moments = occasions(config.life.wrong_links / 100, clocks, company.site[workers], rng)
    hosts = workers[who]
    there = moments >= company.first_day[hosts] * DAY
    hosts, moments = hosts[there], moments[there]
    near = rng.random(len(hosts)) < 0.8
    targets = rng.choice(servers, len(hosts))
    for row in np.flatnonzero(near).tolist():
        targets[row] = rng.choice(company.of(SERVER, site=int(company.site[hosts[row]])))
    work.add(moments, hosts, targets, people.everyday[hosts], "smb https", failed=1.0)


def retry_storms(config: SimulationConfig, people: People, work: Work) -> None:
    """A service or a scheduled task keeps on trying a password that was changed, for hours."""
    company, rng = people.company, work.rng
    for _ in range(rng.poisson(config.life.storms * config.days * max(1.0, len(company) / 800))):
        if rng.random() < 0.6:
            host = int(rng.choice(company.of(SERVER)))
            account = int(rng.choice(people.applications))
        else:
            host = int(rng.choice(people.workers()))
            account = int(people.everyday[host])
        controllers = company.of(CONTROLLER, site=int(company.site[host]))
        target = int(rng.choice(controllers if rng.random() < 0.7 else company.of(SERVER)))
        begin = rng.uniform(company.first_day[host] * DAY, config.end)
        every, hours = rng.uniform(30, 300), rng.uniform(1, 12)
        times = np.arange(0, hours * 3600, every)
        work.add(begin + times, host, target, account, "smb ldap", mean=1, failed=1.0)


def mistyped(config: SimulationConfig, people: People, events: Events, rng: np.random.Generator) -> Events:
    """Failed copies of log-ons: a typo some seconds before, an expired password again and again."""
    company, life = people.company, config.life
    at_desk = company.role[events.src] == WORKSTATION
    signs_on = at_desk & (company.role[events.dst] == CONTROLLER)
    typos = np.flatnonzero(signs_on & (rng.random(len(events)) < life.typos))
    day = events.time // int(DAY)
    days = int(day.max(initial=0)) + 1
    expires = rng.random((len(company), days)) < life.expired
    first = np.full(len(company) * days, np.iinfo(np.int64).max)
    np.minimum.at(first, events.src * days + day, events.time)
    late = events.time - first[events.src * days + day] < EXPIRED_HOURS * 3600
    expired = np.flatnonzero(at_desk & expires[events.src, day] & late)
    return join([_failing(events, typos, rng), _failing(events, expired, rng)])


def _failing(events: Events, rows: IntArray, rng: np.random.Generator) -> Events:
    rows = np.repeat(rows, rng.integers(1, 3, len(rows)))
    copies = events.take(rows)
    earlier = copies.time - rng.integers(3, 40, len(rows))
    kept = replace(copies, time=earlier, outcome=np.zeros(len(rows), dtype=np.bool_))
    return kept.take(earlier >= 0)
