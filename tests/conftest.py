"""Fixtures for all rooms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts seconds, hypothesis included: a busy machine is no failure.
settings.register_profile("entente", deadline=None)
settings.load_profile("entente")

# Two workers share the cores; more threads each would only get in their way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public sample data beside the repository; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"public sample data not found at {SHARED}")
    return SHARED
