"""Clipping before the rule, noise after it, and the account of what was released."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from entente.config import Privacy
from entente.errors import ConfigError
from entente.federation.aggregators.base import Aggregator, Vector
from entente.federation.records import PrivacyRecord
from entente.privacy.accountant import Accountant
from entente.privacy.noise import clip, perturb

WEAK_SENSITIVITY = 0.001
"""The paper's M_qs for weak noise."""


class Publisher:
    """What stands between a rule and the model that silos get to see."""

    def __init__(self, privacy: Privacy, rule: Aggregator, silos: int, seed: int) -> None:
        self.privacy = privacy
        self._rule = rule
        self._seed = seed
        self._accountant = Accountant()
        if privacy.mechanism == "central":
            if rule.influence(silos, privacy.clip) is None:
                raise ConfigError(
                    f"central noise cannot be calibrated: rule {rule.name!r} has no known bound on one silo",
                    where="privacy.mechanism",
                    remedy="Set federation.aggregation.adaptive to false (Entente) or privacy.clip (FedAVG).",
                )
            self._accountant.epsilon(privacy.delta)

    def clip(self, vector: Vector, current: Vector) -> tuple[Vector, float | None]:
        """The update as the rule may see it, and its norm before if clipping is on."""
        if self.privacy.clip is None:
            return vector, None
        return clip(vector, current, self.privacy.clip)

    def publish(self, model: Vector, round_: int, silos: int) -> tuple[Vector, PrivacyRecord | None]:
        """The model with the configured noise, and the record's line about it."""
        mechanism = self.privacy.mechanism
        if mechanism == "none":
            return model, None
        sensitivity = WEAK_SENSITIVITY
        if mechanism == "central":
            sensitivity = self._rule.influence(silos, self.privacy.clip) or 0.0
            self._accountant.spend(self.privacy.sigma)
        deviation = self.privacy.sigma * sensitivity
        noisy = perturb(model, deviation, self._generator(round_))
        told = {"sensitivity": sensitivity, "deviation": deviation}
        return noisy, self.report().model_copy(update=told)

    def report(self) -> PrivacyRecord:
        """Epsilon and delta of all releases so far, or that there is no guarantee."""
        mechanism = self.privacy.mechanism
        if mechanism == "none":
            return PrivacyRecord(mechanism=mechanism, guarantee="no guarantee: no noise is added")
        record = PrivacyRecord(
            mechanism=mechanism,
            guarantee="no guarantee: weak DP's noise is not scaled to the sensitivity",
            sigma=self.privacy.sigma,
            randomness=self.privacy.randomness,
        )
        if mechanism == "weak":
            return record
        epsilon, delta = self._accountant.epsilon(self.privacy.delta), self.privacy.delta
        text = f"epsilon {epsilon:.4g} at delta {delta:g} for replacing one silo, over all released models"
        if self.privacy.randomness == "seeded":
            text += "; void against anyone who knows the seed (set privacy.randomness to secret)"
        spent = {"epsilon": epsilon, "delta": delta, "releases": self._accountant.releases}
        return record.model_copy(update={"guarantee": text, **spent})

    def _generator(self, round_: int) -> np.random.Generator:
        if self.privacy.randomness == "secret":
            return np.random.default_rng()
        words = np.frombuffer(hashlib.sha256(b"entente noise").digest(), dtype="<u4").tolist()
        return np.random.default_rng([self._seed, round_, *words])

    def state(self) -> dict[str, Any]:
        return {"releases": self._accountant.releases, "precision": self._accountant.precision}

    def restore(self, facts: Mapping[str, Any]) -> None:
        self._accountant = Accountant(int(facts["releases"]), float(facts["precision"]))
