"""Shared by the benchmarks beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def least(work: Callable[[], Any], times: int) -> float:
    """Processor seconds of the best of several runs: other programs on the machine count less."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best
