"""A trained detector on disk: `model.safetensors` (weights) and `model.json` (what is needed to load it)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from entente.artifacts import read_arrays, read_json, write_arrays, write_json
from entente.config import DetectorConfig
from entente.detectors import create
from entente.detectors.base import Detector, GraphShape
from entente.errors import StorageError

WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"
FORMAT = 1


def save(detector: Detector, folder: Path) -> None:
    """Write a detector's settings, shape and weights into `folder`. State and optimiser stay out."""
    write_arrays(folder / WEIGHTS, detector.weights())
    write_json(
        folder / DESCRIPTION,
        {
            "format": FORMAT,
            "detector": detector.config.model_dump(mode="json"),
            "shape": asdict(detector.shape),
            "components": {part: list(names) for part, names in detector.components.items()},
        },
    )


def load(folder: Path) -> Detector:
    """The detector that `save` left in `folder`; it scores exactly as the saved one did."""
    description = read_json(folder / DESCRIPTION)
    config, shape = _described(description, folder / DESCRIPTION)
    detector = create(config, shape, seed=0)
    if detector.components:
        detector.load_weights(read_arrays(folder / WEIGHTS))
    return detector


def _described(description: Any, where: Path) -> tuple[Any, GraphShape]:
    remedy = "The file is damaged or of another version; train again or restore it from a copy."
    try:
        if description["format"] != FORMAT:
            raise StorageError(
                f"has format {description['format']!r}, not {FORMAT}", where=where, remedy=remedy
            )
        config = TypeAdapter[Any](DetectorConfig).validate_python(description["detector"])
        return config, GraphShape(**description["shape"])
    except (KeyError, TypeError, ValidationError) as error:
        raise StorageError(
            f"does not describe a detector ({type(error).__name__})", where=where, remedy=remedy
        ) from error
