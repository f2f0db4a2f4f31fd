"""The red team that lives off the land: an admin's machine, account, hours and usual ways."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.activity import SERVICE
from entente_lab.simulator.company import ADMIN, JUMP, IntArray
from entente_lab.simulator.redteams.base import LATERAL, Attack, Move, Scene, Step, attack_of

MOVES_PER_DAY = (3, 8)
"""Contacts on a working day, uniform."""
KNOWN = 0.65
"""Share of the contacts with hosts that this admin manages anyway; the others are other admins' hosts."""
OVER_JUMP_HOST = 0.4
"""Share of the contacts that go over a jump host the admin uses, where there is one."""
RETRIED = 0.02
"""Share of the contacts that fail once before: the credentials are right."""


def living_off_admin_paths(scene: Scene, rng: np.random.Generator) -> Attack:
    """Nothing but time, amount and a third of the targets tells this from the admin's own work."""
    company = scene.company
    admin = int(rng.choice(company.of(ADMIN)))
    site = int(company.site[admin])
    own = _administered(scene, admin)
    others = np.unique(np.concatenate([_administered(scene, int(host)) for host in company.of(ADMIN)]))
    others = np.setdiff1d(others, own)
    jumps = np.intersect1d(scene.known_targets(admin), company.of(JUMP))
    days = (scene.config.end - scene.config.attack_start) / 86_400
    count = max(4, round(days * rng.uniform(*MOVES_PER_DAY)))
    moves: list[Move] = []
    for time in scene.moments(site, count, 0.95, rng).tolist():
        pool = own if rng.random() < KNOWN or not len(others) else others
        if not len(pool):
            continue
        dst = int(rng.choice(pool))
        src = admin
        failures = int(rng.random() < RETRIED)
        if len(jumps) and rng.random() < OVER_JUMP_HOST:
            jump = int(rng.choice(jumps))
            moves.append(Move(time, Step(admin, jump, admin, LATERAL["rdp"], "rdp", "over the jump host")))
            src, time = jump, time + rng.uniform(60, 900)
        protocol = str(rng.choice(list(LATERAL)))
        moves.append(Move(time, Step(src, dst, admin, LATERAL[protocol], protocol, "admin path"), failures))
    return attack_of("living-off-admin-paths", scene, moves, rng, ntlm=0.2)


def _administered(scene: Scene, admin: int) -> IntArray:
    """Hosts that the admin's account manages before the attack, from whatever host."""
    benign = scene.benign
    remote = np.array([SERVICE[name] for name in LATERAL])
    here = (benign.account == admin) & (benign.time < scene.config.attack_start)
    here &= np.isin(benign.service, remote)
    here &= benign.dst != admin
    found: IntArray = np.unique(benign.dst[here])
    return found
