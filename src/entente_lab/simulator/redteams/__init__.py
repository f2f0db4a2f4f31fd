"""Red teams of several styles, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from entente_lab.simulator.redteams.admin_paths import living_off_admin_paths
from entente_lab.simulator.redteams.base import TECHNIQUES, Attack, Scene
from entente_lab.simulator.redteams.campaign import campaign
from entente_lab.simulator.redteams.fast import sessions, spread
from entente_lab.simulator.redteams.insider import insider
from entente_lab.simulator.redteams.slow_chain import slow_chain

__all__ = ["STYLES", "TECHNIQUES", "Attack", "Scene"]

STYLES: Final[Mapping[str, Callable[[Scene, np.random.Generator], Attack]]] = {
    "campaign": campaign,
    "sessions": sessions,
    "spread": spread,
    "slow-chain": slow_chain,
    "living-off-admin-paths": living_off_admin_paths,
    "insider": insider,
}
