"""FLARE looks for transport drivers in this folder (`comm_driver_path`); what it needs to find is here."""

from entente.deployment.guarded_driver import GuardedDriver as GuardedDriver
