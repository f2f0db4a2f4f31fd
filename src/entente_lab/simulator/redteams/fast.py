"""Red teams in a hurry: busy sittings, and a spread over many hosts within hours."""

from __future__ import annotations

from collections import deque

import numpy as np

from entente_lab.simulator.company import CONTROLLER
from entente_lab.simulator.redteams.base import Attack, Move, Scene, Step, attack_of, lateral, look

SITTINGS = (2, 5)
"""Sittings of `sessions`, on different occasions of the attack's days."""
SITTING_CONTACTS = (5, 25)
SITTING_MINUTES = (20, 90)
RETRIED = 0.15
"""Share of the contacts of `sessions` that fail once to three times before they succeed."""
ROASTED = 0.4
"""Probability that `sessions` goes on with a service account cracked offline, not with an admin's."""
SPREAD_SHARE = 0.15
"""Share of the company that `spread` reaches at most, and never more than 150 hosts."""
SPREAD_HOURS = 6.0
SPREAD_DENIED = 0.3
"""Share of the contacts of `spread` that the credential does not open."""


def sessions(scene: Scene, rng: np.random.Generator) -> Attack:
    """Looks around as the user first; then sits down a few times with credentials found on the way."""
    foothold = scene.foothold(rng)
    site = int(scene.company.site[foothold])
    begins = scene.moments(site, int(rng.integers(SITTINGS[0], SITTINGS[1] + 1)), 0.7, rng).tolist()
    moves: list[Move] = []
    host, account, held = foothold, foothold, [foothold]
    for number, begin in enumerate(begins):
        length = rng.uniform(*SITTING_MINUTES) * 60
        targets = scene.strange_targets(host, int(rng.integers(*SITTING_CONTACTS)), rng)
        for time, dst in zip(
            np.sort(begin + length * rng.random(len(targets))).tolist(), targets, strict=True
        ):
            failures = int(rng.integers(1, 4)) if rng.random() < RETRIED else 0
            step = (
                look(host, dst, account, rng)
                if number == 0
                else lateral(host, dst, account, rng, "lateral movement")
            )
            moves.append(Move(time, step, failures))
            if number > 0:
                held.append(dst)
        if number == 0:
            controller = int(scene.company.of(CONTROLLER, site=site)[0])
            step = Step(foothold, controller, foothold, "T1558.003", "smb", "credential access")
            moves.append(Move(begin + length + 60, step))
            roasted = rng.random() < ROASTED
            account = scene.service_account(rng) if roasted else scene.admin_near(foothold, rng)
        else:
            host = int(rng.choice(held))
            account = scene.loot(host, rng) if rng.random() < 0.5 else account
    return attack_of("sessions", scene, moves, rng)


def spread(scene: Scene, rng: np.random.Generator) -> Attack:
    """A worm or a script: every reached host goes on to three to ten others within the hour."""
    foothold = scene.foothold(rng)
    account = scene.admin_near(foothold, rng)
    limit = max(8, min(150, int(SPREAD_SHARE * len(scene.company))))
    span = scene.config.end - scene.config.attack_start
    begin = scene.config.attack_start + rng.uniform(0, 0.7) * span
    stop = min(begin + SPREAD_HOURS * 3600, scene.config.end - 600)
    moves: list[Move] = []
    reached, waiting = {foothold}, deque([(begin, foothold)])
    while waiting and len(reached) < limit:
        time, host = waiting.popleft()
        for dst in scene.strange_targets(host, int(rng.integers(3, 11)), rng, home=0.8, appeal=2.0):
            time += rng.exponential(90)
            if time >= stop or len(reached) >= limit:
                break
            if dst in reached:
                continue
            denied = rng.random() < SPREAD_DENIED
            technique = str(rng.choice(["T1021.002", "T1570"]))
            step = Step(host, dst, account, technique, "smb", "spread")
            moves.append(Move(time, step, failures=int(rng.integers(1, 3)) if denied else 0, denied=denied))
            if not denied:
                reached.add(dst)
                waiting.append((time + rng.lognormal(np.log(1200), 0.5), dst))
    return attack_of("spread", scene, moves, rng)
