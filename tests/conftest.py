"""Fixtures for all rooms."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(autouse=True)
def level_of_logging() -> Iterator[None]:
    """A command with --quiet leaves the root logger quiet; the next test would hear nothing."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


# ---- with `-n`: who runs what ---------------------------------------------------------------------

FEDERATION = "tests/deployment/test_flare_"
"""Modules that share one federation on loopback, which waits more than it works."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A module stays on one worker, so that what its tests share is made once; so does the federation."""
    from xdist.scheduler import LoadScopeScheduling

    class ByModule(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return FEDERATION if module.startswith(FEDERATION) else module

    return ByModule(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The federation first, the rest goes on beside it; then modules with slow tests, lest one ends alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(FEDERATION), item.path not in slow))
