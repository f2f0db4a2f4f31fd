"""A made-up company with sites, habits and a red team, whose logs the ordinary ingest reads.

simulation = simulate(SimulationConfig(seed=1))
write(simulation, Path("company"), "lanl")
"""

from entente.logs.simulator.company import Company, SimulationConfig
from entente.logs.simulator.output import FORMATS, write
from entente.logs.simulator.run import Simulation, simulate

__all__ = ["FORMATS", "Company", "Simulation", "SimulationConfig", "simulate", "write"]
