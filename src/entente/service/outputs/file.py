"""Alerts appended to one file per day, in any of the file formats that hold one alert per line."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from entente.config import Section
from entente.detection.alerts import Alert
from entente.detection.sinks import create as create_sink
from entente.detection.sinks.base import timestamp
from entente.service.outputs.base import Delivery, Output, Unreachable

REMEMBERED = 60
"""So many files of other days keep their mark."""


class FileOptions(Section):
    """Files of alerts."""

    path: Path
    """Folder for the files."""
    format: Literal["jsonl", "ecs", "ocsf", "cef", "timesketch"] = "jsonl"
    """One alert per line."""


class FileOutput(Output):
    """The length of each file is stored before and with every delivery: what a killed process had appended
    without having said so is cut off again, so that no line stands there twice, and none that stood there
    before is lost."""

    name = "file"
    summary = "one file per day: jsonl, ecs, ocsf, cef or timesketch"
    Options = FileOptions

    def __init__(self, options: FileOptions, where: str) -> None:
        super().__init__(options, where)
        self._sink = create_sink(options.format)

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        lengths: dict[str, int] = json.loads(mark) if mark else {}
        days = defaultdict[str, list[Alert]](list)
        for alert in alerts:
            days[f"{timestamp(alert.start)[:10]}{self._sink.suffix}"].append(alert)
        try:
            self.options.path.mkdir(parents=True, exist_ok=True)
            unknown = {name: self._length(name) for name in days if name not in lengths}
            if unknown:  # nothing is written before it is stored what stood there
                return Delivery(0, mark=_marked(lengths | unknown, days))
            for name, group in days.items():
                lengths[name] = self._append(name, self._sink.render(group), lengths[name])
        except OSError as error:
            raise Unreachable(f"cannot be written ({error.strerror})") from error
        return Delivery(len(alerts), mark=_marked(lengths, days))

    def _length(self, name: str) -> int:
        path = self.options.path / name
        return path.stat().st_size if path.exists() else 0

    def _append(self, name: str, text: str, length: int) -> int:
        path = self.options.path / name
        with path.open("r+b" if path.exists() else "w+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.truncate(min(length, end))
            file.seek(0, os.SEEK_END)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            return int(file.tell())


def _marked(lengths: Mapping[str, int], used: Collection[str]) -> str:
    """The lengths of the files just used and of the last others."""
    others = sorted(name for name in lengths if name not in used)
    return json.dumps({name: lengths[name] for name in (*others[-REMEMBERED:], *used)})
