"""The base model: the network as trained on many simulated networks, shipped with the package.

No weight names a host, so that it fits a log that it has never met; `tools/base_model.py` makes it.
"""

from __future__ import annotations

from pathlib import Path

from entente.artifacts import Arrays, decode_bundle
from entente.detectors.behaviour.features import NAMES
from entente.errors import DetectorError

PATH = Path(__file__).with_name("base.safetensors")


def base_weights() -> Arrays:
    """The weights of the base model, for a network of the default width."""
    bundle = decode_bundle(PATH.read_bytes())
    if bundle.facts.get("features") != list(NAMES):
        raise DetectorError(
            "the base model was made for other features",
            where=PATH,
            remedy="Make it again: python tools/base_model.py",
        )
    return bundle.arrays
