"""The insider: a user with a valid account who opens what is none of the department's business."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.company import SERVER, SHARED, WORKSTATION
from entente_lab.simulator.redteams.base import LATERAL, Attack, Move, Scene, Step, attack_of

CONTACTS_PER_DAY = (2, 6)
"""Contacts on a working day, uniform."""
DENIED = 0.25
"""Share of the contacts that the own account does not open."""
BORROWED = 0.5
"""Probability that the insider knows a colleague's password and uses it for the last third."""


def insider(scene: Scene, rng: np.random.Generator) -> Attack:
    """From the own workstation at the own hours, to servers of other departments and sites."""
    company = scene.company
    workers = company.of(WORKSTATION)
    workers = workers[company.first_day[workers] * 86_400 < scene.config.attack_start]
    host = int(rng.choice(workers))
    pool = company.of(SERVER, SHARED)
    pool = np.setdiff1d(pool[company.department[pool] != company.department[host]], scene.known_targets(host))
    days = (scene.config.end - scene.config.attack_start) / 86_400
    count = min(max(4, round(days * rng.uniform(*CONTACTS_PER_DAY))), 3 * len(pool))
    colleagues = workers[(company.department[workers] == company.department[host]) & (workers != host)]
    knows = len(colleagues) > 0 and rng.random() < BORROWED
    colleague = int(rng.choice(colleagues)) if knows else host
    moves: list[Move] = []
    for number, time in enumerate(scene.moments(int(company.site[host]), count, 0.97, rng).tolist()):
        account = colleague if number >= 2 * count // 3 else host
        dst = int(rng.choice(pool))
        if rng.random() < 0.8:
            technique, protocol, name = str(rng.choice(["T1039", "T1135"])), "smb", "collection"
        else:
            technique, protocol, name = LATERAL["rdp"], "rdp", "valid account"
        technique = "T1078.002" if account != host else technique
        denied = rng.random() < DENIED
        failures = int(rng.integers(1, 4)) if denied else 0
        moves.append(Move(time, Step(host, dst, account, technique, protocol, name), failures, denied))
    return attack_of("insider", scene, moves, rng, ntlm=0.3)
