"""One experiment file (TOML) <-> frozen, validated models; unknown keys are errors.

Options of a detector or an aggregation rule are defined by the plug-in; the schema is put together from the
registry when a file is read.
"""

from entente.config.experiment import Data, Detection, Experiment, Federation, Graph, Privacy
from entente.config.files import (
    load_experiment,
    parse_experiment,
    read_toml,
    resolve_paths,
    to_toml,
    validation_problems,
)
from entente.config.page import settings_reference
from entente.config.sections import (
    AggregationOptions,
    ChosenAggregation,
    DetectorOptions,
    Section,
    aggregation_options,
    detector_options,
)

__all__ = [
    "AggregationOptions",
    "ChosenAggregation",
    "Data",
    "Detection",
    "DetectorOptions",
    "Experiment",
    "Federation",
    "Graph",
    "Privacy",
    "Section",
    "aggregation_options",
    "detector_options",
    "load_experiment",
    "parse_experiment",
    "read_toml",
    "resolve_paths",
    "settings_reference",
    "to_toml",
    "validation_problems",
]
