"""What a silo learns from alerts that its people closed: how high a source must score to be raised again.

A source of which several alerts were closed as benign is raised again only where it scores higher than all of
them. If its later benign scores are drawn like those, one that lies above n earlier ones has a chance of
1 / (n + 1). Nothing of this leaves the silo, the model is not touched, and an alert that is opened again, or
a true one of the same source, takes the lesson back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LEAST = 3
"""Alerts of a source that must have been closed as benign before anything changes: one click mutes nobody."""
DAYS = 30
"""Days that a closed alert counts, by its own time."""


@dataclass(frozen=True, slots=True)
class ClosedAlert:
    """What people made of one alert."""

    silo: str
    src: str
    excess: float
    """Score above the silo's threshold: models differ in scale, and each has a threshold on its own."""
    benign: bool


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learnt of one source."""

    closed: int  # alerts that were closed as benign
    bar: float  # the highest of them, above the threshold


@dataclass(frozen=True, slots=True)
class Lessons:
    """All that a service's people have taught it, by silo and source."""

    of: Mapping[tuple[str, str], Lesson] = field(default_factory=dict)

    def quiet(self, silo: str, src: str, excess: float) -> bool:
        """Whether an edge of this source is of the kind that people have closed as benign."""
        lesson = self.of.get((silo, src))
        return lesson is not None and excess <= lesson.bar


NOTHING_LEARNT = Lessons()


def learn(verdicts: Iterable[ClosedAlert]) -> Lessons:
    """The lessons of alerts that were closed as benign or as true; of other reasons nothing is learnt."""
    benign: dict[tuple[str, str], list[float]] = defaultdict(list)
    guilty: set[tuple[str, str]] = set()
    for verdict in verdicts:
        source = (verdict.silo, verdict.src)
        if verdict.benign:
            benign[source].append(verdict.excess)
        else:
            guilty.add(source)
    return Lessons(
        {
            source: Lesson(len(scores), max(scores))
            for source, scores in sorted(benign.items())
            if len(scores) >= LEAST and source not in guilty
        }
    )
