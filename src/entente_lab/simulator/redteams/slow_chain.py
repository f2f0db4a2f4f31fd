"""The patient red team: a contact every few hours, moving on, with what each host has to steal."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.redteams.base import Attack, Move, Scene, attack_of, lateral, look

GAP_HOURS = (2.0, 8.0)
"""Mean hours between two contacts, log-uniform; gaps are exponential."""
MOVE_ON = 0.3
"""Probability per contact of going on from the host just reached."""
RETURN = 0.1
"""Probability per contact of going back to a host held earlier."""
REPEATED = 0.2
"""Share of the contacts that are made again some hours later."""
RETRIED = 0.2
"""Share of the contacts that fail once or twice before they succeed."""


def slow_chain(scene: Scene, rng: np.random.Generator) -> Attack:
    """From a workstation with its user's account; on each new host another credential may lie around."""
    host = scene.foothold(rng)
    account, held, used = host, [(host, host)], {host}
    gap = float(np.exp(rng.uniform(*np.log(GAP_HOURS)))) * 3600
    time = scene.config.attack_start + rng.exponential(gap)
    moves: list[Move] = []
    while time < scene.config.end - 1800 and len(moves) < 60:
        targets = [dst for dst in scene.strange_targets(host, 8, rng) if dst not in used]
        if not targets:
            break
        dst = targets[0]
        used.add(dst)
        name = "lateral movement" if len(moves) > 2 else "discovery"
        step = lateral(host, dst, account, rng, name) if len(moves) > 2 else look(host, dst, account, rng)
        failures = int(rng.integers(1, 3)) if rng.random() < RETRIED else 0
        moves.append(Move(time, step, failures))
        if rng.random() < REPEATED:
            again = time + rng.exponential(2 * gap)
            if again < scene.config.end - 1800:
                moves.append(Move(again, step))
        draw = rng.random()
        if draw < MOVE_ON:
            host, account = dst, scene.loot(dst, rng) if rng.random() < 0.5 else account
            held.append((host, account))
        elif draw < MOVE_ON + RETURN:
            host, account = held[int(rng.integers(len(held)))]
        time += rng.exponential(gap)
    return attack_of("slow-chain", scene, moves, rng)
