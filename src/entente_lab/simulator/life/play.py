"""The lifelike company's days: everyday habits, one-off work, failures, addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entente_lab.simulator.activity import (
    Clocks,
    Events,
    Habits,
    build_clocks,
    draw_events,
    join,
)
from entente_lab.simulator.company import (
    ADMIN,
    WORKSTATION,
    Company,
    IntArray,
    SimulationConfig,
    build_company,
)
from entente_lab.simulator.habits import HabitBuilder, build_habits
from entente_lab.simulator.life import failures, fleet, people, staff
from entente_lab.simulator.life.work import Work
from entente_lab.simulator.novelty import build_roll_outs


@dataclass(frozen=True, slots=True, eq=False)
class Days:
    """What happens in a company without any attack."""

    company: Company
    role: IntArray
    clocks: Clocks
    benign: Events
    tenants: IntArray | None
    """[day, host]: whose fixed address the host has on that day; None where addresses never change."""


def lifelike(config: SimulationConfig, streams: list[np.random.Generator]) -> Days:
    """`streams` as in the classic company, and twenty more from the twentieth."""
    config = replace(config, life=config.life.scaled(config.novelty))
    population = people.settle(config, build_company(config, streams[0]), streams[20])
    company = population.company
    clocks = build_clocks(config, company, people.draw_holidays(config, company, streams[21]))
    work = Work(streams[22])
    habits = join(
        [
            build_habits(config, company, clocks, streams[1]),
            _jump_host_habits(config, population, clocks, streams[23]),
            build_roll_outs(config, company, clocks, streams[2]),
        ]
    )
    habits = fleet.migrate(config, population, habits, work)
    habits = people.sign_habits(config, population, habits, streams[24])
    for task in (fleet.scans, fleet.patches, fleet.deployments, fleet.inventories, failures.retry_storms):
        task(config, population, work)
    for job in (staff.admin_jobs, staff.helpdesk, staff.remote_desktops, failures.wrong_links):
        job(config, population, clocks, work)
    staff.borrowed_machines(config, population, clocks, habits, work)
    everyday = people.seat(
        config, population, draw_events(habits, clocks, company, config, streams[3]), streams[25]
    )
    slips = failures.mistyped(config, population, everyday, streams[26])
    benign = join([everyday, slips, work.events(config)])
    there = benign.time >= company.first_day[benign.src] * 86_400
    there &= benign.time >= company.first_day[benign.dst] * 86_400
    benign = _packages(config, people.name_logons(population, benign.take(there)))
    tenants = _tenants(config, company, streams[27])
    return Days(company, population.shown_role, clocks, benign, tenants)


def _jump_host_habits(
    config: SimulationConfig, population: people.People, clocks: Clocks, rng: np.random.Generator
) -> Habits:
    """Admins open their jump host about once a day."""
    company = population.company
    admins = company.of(ADMIN)
    jump = np.array([population.jump_host(int(site)) for site in company.site[admins]])
    build = HabitBuilder(config, company, clocks, rng)
    return build.pairs(admins[jump >= 0], jump[jump >= 0], "rdp", 1.2)


def _packages(config: SimulationConfig, events: Events) -> Events:
    """Machines negotiate the same way each time: the package follows from the pair."""
    place = (events.src * 7919 + events.dst * 104_729) % 10_007 / 10_007
    ntlm = config.life.ntlm
    return replace(events, package=np.where(place < ntlm, 0, np.where(place < 0.96, 1, 2)))


def _tenants(config: SimulationConfig, company: Company, rng: np.random.Generator) -> IntArray:
    """Each day some workstations of a site get the addresses that others of them gave up."""
    held = np.arange(len(company))
    days = [held.copy()]
    moving: NDArray[np.bool_]
    for _ in range(1, int(np.ceil(config.days))):
        moving = (company.role == WORKSTATION) & (rng.random(len(company)) < config.life.leases)
        for site in range(len(company.site_names)):
            hosts = rng.permutation(np.flatnonzero(moving & (company.site == site)))
            held[hosts] = np.roll(held[hosts], 1)
        days.append(held.copy())
    return np.array(days)
