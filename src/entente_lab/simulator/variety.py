"""Companies that differ from one another in size, pace, habits of their staff and red teams."""

from __future__ import annotations

import numpy as np

from entente_lab.simulator.company import MIN_SITE, RED_TEAMS, SimulationConfig
from entente_lab.simulator.life.settings import SHARES, Life

SPREAD = 2.0
"""Every parameter of the lifelike company is multiplied by a factor between 1 / SPREAD and SPREAD."""


def varied_company(
    seed: int,
    *,
    days: float | None = None,
    hosts: tuple[int, int] = (100, 1500),
    red_teams: tuple[str, ...] | None = None,
) -> SimulationConfig:
    """A company drawn by its seed, for models that shall fit more than one kind of company.

    One in four is classic, the others lifelike with every parameter drawn; one to eight sites, hosts
    log-uniform, 6 to 14 days unless told, half to twice the activity and novelty, one red team of any style
    unless told.
    """
    rng = np.random.default_rng([seed, 2001])
    size = round(_log_uniform(rng, *hosts))
    sites = int(rng.integers(1, min(8, size // (2 * MIN_SITE)) + 1))
    life = {
        name: getattr(Life(), name) * _log_uniform(rng, 1 / SPREAD, SPREAD)
        for name in Life.__dataclass_fields__
    }
    life |= {name: min(1.0, life[name]) for name in SHARES}
    length = float(rng.integers(6, 15)) if days is None else days
    activity, novelty = _log_uniform(rng, 0.5, 2.0), _log_uniform(rng, 0.5, 2.0)
    style = str(rng.choice(list(RED_TEAMS)))
    preset = "classic" if rng.random() < 0.25 else "lifelike"
    return SimulationConfig(
        sites=sites,
        hosts=size,
        days=length,
        seed=seed,
        activity=activity,
        novelty=novelty,
        red_teams=(style,) if red_teams is None else red_teams,
        preset=preset,
        life=Life(**life) if preset == "lifelike" else Life(),
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
