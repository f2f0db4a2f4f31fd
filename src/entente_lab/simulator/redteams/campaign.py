"""The red team of the classic company: one foothold, a look around, a stolen credential, slow steps."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.activity import KERBEROS, NTLM, SERVICE, Events
from entente_lab.simulator.company import ADMIN, CONTROLLER, SERVER, SHARED, WORKSTATION, Company, IntArray
from entente_lab.simulator.redteams.base import LATERAL, Attack, Scene, Step

SERVER_APPEAL = 6.0
"""How much likelier a server is to be chosen as a target than a workstation."""


def campaign(scene: Scene, rng: np.random.Generator) -> Attack:
    """Times follow the entry site's working hours in the main, in the order of the steps."""
    config, company, clocks = scene.config, scene.company, scene.clocks
    steps = _campaign(company, rng)
    entry = int(company.site[steps[0].src])
    # Blend working hours with a flat clock: operators also work at night.
    total = 0.75 * clocks.total[entry] + 0.25 * clocks.total[clocks.always]
    low, high = np.interp([config.attack_start, config.end - 3600], clocks.grid, total)
    begin = np.interp(np.sort(rng.uniform(low, high, len(steps))), total, clocks.grid)
    # Some hosts are visited again, later: by then the pair is no longer new.
    again = np.flatnonzero(rng.random(len(steps)) < 0.25)
    later = rng.uniform(begin[again] + 1800, np.maximum(config.end - 1800, begin[again] + 1801))
    row = np.concatenate([np.arange(len(steps)), again])
    moment = np.concatenate([begin, later])
    times = rng.integers(1, 3, len(row))
    row, moment = np.repeat(row, times), np.repeat(moment, times)
    time = np.clip(np.ceil(moment + rng.exponential(90, len(moment))), config.attack_start, config.end - 1)
    # In time order, and never twice in one second: a ground truth row names one event.
    time, row = np.unique(np.stack([time.astype(np.int64), row]), axis=1)

    def column(values: list[int]) -> IntArray:
        chosen: IntArray = np.array(values, dtype=np.int64)[row]
        return chosen

    package = np.full(len(steps), NTLM)
    if config.preset != "classic":
        package = np.where(rng.random(len(steps)) < 0.6, NTLM, KERBEROS)
    events = Events.of(
        time=time,
        src=column([step.src for step in steps]),
        dst=column([step.dst for step in steps]),
        account=column([step.account for step in steps]),
        service=column([SERVICE[step.protocol] for step in steps]),
        package=package[row],
        label=1,
    )
    return Attack("campaign", events, row, tuple(steps))


def _campaign(company: Company, rng: np.random.Generator) -> list[Step]:
    sites = len(company.site_names)
    # A branch has weaker walls than the head office.
    entry = int(rng.integers(1, sites)) if sites > 1 else 0
    foothold = int(rng.choice(company.of(WORKSTATION, site=entry)))
    steps: list[Step] = []

    def lateral(src: int, targets: IntArray, account: int, name: str) -> None:
        for dst in targets.tolist():
            protocol = str(rng.choice(list(LATERAL)))
            steps.append(Step(src, dst, account, LATERAL[protocol], protocol, name))

    def look(src: int, targets: IntArray, account: int, name: str) -> None:
        for dst in targets.tolist():
            technique = str(rng.choice(["T1018", "T1135"]))
            steps.append(Step(src, dst, account, technique, "smb", name))

    def pick(src: int, count: int, *roles: int, site: int) -> IntArray:
        """Targets that are not the source's own department: what it normally talks to is left alone."""
        pool = company.of(*roles, site=site)
        pool = pool[(pool != src) & ((company.department[pool] != company.department[src]) | (site != entry))]
        # Machines that many others use are worth more; LANL's red team went for such (docs/simulator.md).
        worth = np.where(company.role[pool] == WORKSTATION, 1.0, SERVER_APPEAL)
        return rng.choice(pool, min(count, len(pool)), replace=False, p=worth / worth.sum())

    # Look around from the foothold with the user's own account.
    look(foothold, pick(foothold, 4, WORKSTATION, site=entry), foothold, "discovery")
    look(foothold, pick(foothold, 2, SERVER, site=entry), foothold, "discovery")
    controller = int(company.of(CONTROLLER, site=entry)[0])
    steps.append(Step(foothold, controller, foothold, "T1558.003", "smb", "credential access"))
    # An admin's credential lay on the foothold: it opens the site's servers and workstations.
    stolen = int(rng.choice(company.of(ADMIN, site=entry)))
    near = pick(foothold, 4, WORKSTATION, SERVER, site=entry)
    lateral(foothold, near, stolen, "lateral movement")
    pivots = np.concatenate([[foothold], near[: max(1, len(near) // 2)]])
    # Into every other site through one or two beachheads, and on from there.
    domain_admin = int(rng.choice(company.of(ADMIN, site=0)))
    held: list[int] = []
    for site in rng.permutation([s for s in range(sites) if s != entry])[:6].tolist():
        pivot = int(rng.choice(pivots))
        beach = pick(pivot, 3, WORKSTATION, SERVER, site=site)
        lateral(pivot, beach, stolen, "lateral movement")
        first = int(beach[0])
        held.append(first)
        look(first, pick(first, 3, WORKSTATION, SERVER, site=site), domain_admin, "discovery")
        back = int(rng.choice(sorted(set(range(sites)) - {site})))
        lateral(first, pick(first, 2, WORKSTATION, SERVER, site=back), domain_admin, "lateral movement")
    # Collect from servers, bring it together on the first pivot.
    holders = held or [foothold]
    for src in holders:
        for dst in pick(src, 2, SERVER, SHARED, site=0).tolist():
            steps.append(Step(src, dst, domain_admin, "T1039", "smb", "collection"))
        stage = int(pivots[-1])
        if src != stage:
            steps.append(Step(src, stage, domain_admin, "T1074.002", "smb", "staging"))
    return [step for step in steps if step.src != step.dst]
