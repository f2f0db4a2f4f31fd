"""An edge directory in the place of log lines: its windows come whole, and somebody else extends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from entente.logs.edges.store import EdgeManifest, is_edges, read_edge_manifest
from entente.logs.schema import DAY
from entente.service.pending import SourceClock

NAME = "edges"
"""What the status calls it."""


@dataclass(frozen=True, slots=True)
class CompleteWindows:
    """Windows that are complete. Times are microseconds."""

    start: int
    end: int
    events: int


@dataclass(slots=True)
class EdgeFolder:
    """What `entente edges` writes, call after call.

    Its last window is asked for anew by the next call, so it is complete once there is a later one, or once
    the folder has not been extended for `silent` seconds.
    """

    path: Path
    silent: float
    clock: SourceClock = field(default_factory=SourceClock)
    _known: EdgeManifest | None = None

    def next(self, until: int | None, now: float) -> CompleteWindows | None:
        """The windows to score after those before `until`, about a day of them; None if none is complete."""
        manifest = read_edge_manifest(self.path) if is_edges(self.path) else None
        if manifest is None or not manifest.files:
            return None
        if manifest != self._known:
            self._known = manifest
            self.clock.reached, self.clock.heard = manifest.last_time, now
        files = sorted(manifest.files, key=lambda file: file.start)
        resting = now - self.clock.heard >= self.silent
        end = files[-1].end if resting else files[-1].start
        start = files[0].start if until is None else until
        end = min(end, start + max(1, DAY // manifest.width) * manifest.width)
        if end <= start:
            return None
        return CompleteWindows(start, end, sum(file.events for file in files if start <= file.start < end))
