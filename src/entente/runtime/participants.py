"""Who plays the silos of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from entente.config import Experiment
from entente.errors import ConfigError
from entente.federation.silo import Participant, Silo
from entente.runtime.assembly import Dataset, load_dataset, make_detector


@dataclass(frozen=True, slots=True)
class Participants:
    """Honest silos, except for those named in `silos`: `make` plays these.

    `make` is "package.module:function", called as `function(experiment, dataset, name, **options)`. It is a
    path, and `options` are JSON values, because worker processes make their participants themselves.
    """

    make: str = ""
    silos: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self, present: Collection[str]) -> None:
        """ConfigError if a silo is named that the run does not have: the run would be an honest one."""
        absent = sorted(set(self.silos) - set(present))
        if absent:
            raise ConfigError(
                f"silo {absent[0]!r} is to be played by {self.make}, but the run has no such silo",
                remedy=f"Silos are: {', '.join(present)}.",
            )

    def build(self, experiment: Experiment, dataset: Dataset, name: str) -> Participant:
        if name not in self.silos:
            data, detector = dataset.silos[name], make_detector(experiment, dataset.shape)
            return Silo(name, detector, data.train, data.hosts.own_hosts, experiment.seed, data.later)
        module, _, function = self.make.partition(":")
        try:
            make = getattr(import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"no participants can be made by {self.make!r} ({error})") from error
        participant: Participant = make(experiment, dataset, name, **self.options)
        return participant

    def load(self, experiment: Experiment, names: Collection[str]) -> dict[str, Participant]:
        """The named silos, from their events; what a worker process calls."""
        dataset = load_dataset(experiment, names)
        return {name: self.build(experiment, dataset, name) for name in names}


HONEST = Participants()
