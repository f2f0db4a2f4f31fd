"""Epsilon for what was really released."""

from __future__ import annotations

import math

from entente.errors import MissingExtraError


class Accountant:
    """Adds up Gaussian releases; `multiplier` is noise deviation over sensitivity.

    Gaussian releases with multipliers z_1, z_2, ... are together exactly one release with
    1/z^2 = sum of 1/z_i^2, so epsilon is exact and not a bound of a bound.
    """

    def __init__(self, releases: int = 0, precision: float = 0.0) -> None:
        self.releases = releases
        self.precision = precision  # sum of 1/z^2

    def spend(self, multiplier: float) -> None:
        self.releases += 1
        self.precision += multiplier**-2

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta` of all releases so far; 0 before the first."""
        try:
            from dp_accounting import get_epsilon_gaussian
        except ImportError as error:
            raise MissingExtraError(
                "central differential privacy needs dp-accounting",
                remedy="Install the extra: pip install 'entente[privacy]'.",
            ) from error
        if not self.releases:
            return 0.0
        return float(get_epsilon_gaussian(1.0 / math.sqrt(self.precision), delta))
