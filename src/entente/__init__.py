"""Entente: organisations that may not pool their logs train one graph-based intrusion detector together.

The names below are the public surface; they keep their meaning as `docs/library.md` promises. Everything
else may change. A name is imported when it is first used, so that `import entente` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from entente import datasets
    from entente.config import AggregationOptions, DetectorOptions, Experiment
    from entente.detection.alerts import Alert
    from entente.detection.sinks.base import Sink
    from entente.detectors.base import Detector
    from entente.errors import EntenteError
    from entente.federation.aggregators.base import Aggregator
    from entente.library.estimator import AnomalyDetector
    from entente.library.frames import event_table
    from entente.library.functions import detect, ingest, load_run, train
    from entente.library.run import TrainedRun
    from entente.library.temporal_data import from_temporal_data, to_temporal_data
    from entente.logs.formats.base import Format
    from entente.partition.split import partition
    from entente.runs.folder import RunFolder
    from entente.service.outputs.base import Output
    from entente.service.sources.base import Source

PUBLIC = {
    "ingest": "entente.library.functions",
    "partition": "entente.partition",
    "train": "entente.library.functions",
    "detect": "entente.library.functions",
    "load_run": "entente.library.functions",
    "event_table": "entente.library.frames",
    "Experiment": "entente.config",
    "AnomalyDetector": "entente.library.estimator",
    "TrainedRun": "entente.library.run",
    "RunFolder": "entente.runs.folder",
    "Alert": "entente.detection.alerts",
    "to_temporal_data": "entente.library.temporal_data",
    "from_temporal_data": "entente.library.temporal_data",
    "datasets": "entente.datasets",
    "Detector": "entente.detectors.base",
    "DetectorOptions": "entente.config",
    "Aggregator": "entente.federation.aggregators.base",
    "AggregationOptions": "entente.config",
    "Format": "entente.logs.formats.base",
    "Sink": "entente.detection.sinks.base",
    "Source": "entente.service.sources.base",
    "Output": "entente.service.outputs.base",
    "EntenteError": "entente.errors",
}
"""Public name -> the module that has it."""

__all__ = [
    "AggregationOptions",
    "Aggregator",
    "Alert",
    "AnomalyDetector",
    "Detector",
    "DetectorOptions",
    "EntenteError",
    "Experiment",
    "Format",
    "Output",
    "RunFolder",
    "Sink",
    "Source",
    "TrainedRun",
    "datasets",
    "detect",
    "event_table",
    "from_temporal_data",
    "ingest",
    "load_run",
    "partition",
    "to_temporal_data",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'entente' has no attribute {name!r}")
    module = import_module(PUBLIC[name])
    if module.__name__ == f"entente.{name}":
        return module  # `partition` is a room that can be called
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
