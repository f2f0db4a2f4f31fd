"""What a host is by its part in the silo's graph."""

from typing import Literal

Role = Literal["hub", "server", "workstation"]
"""Contacts many hosts, is contacted by many, or neither."""
