"""A made-up company with sites, habits and a red team, whose logs the ordinary ingest reads.

simulation = simulate(SimulationConfig(seed=1))
write(simulation, Path("company"), "lanl")
"""

from entente_lab.simulator.company import Company, SimulationConfig
from entente_lab.simulator.life.settings import Life
from entente_lab.simulator.network import draw_network
from entente_lab.simulator.output import FORMATS, write
from entente_lab.simulator.run import Simulation, simulate
from entente_lab.simulator.variety import varied_company

__all__ = [
    "draw_network",
    "FORMATS",
    "Company",
    "Life",
    "Simulation",
    "SimulationConfig",
    "simulate",
    "varied_company",
    "write",
]
