"""Alerts appended to one file per day, in any of the file formats that hold one alert per line."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

from entente.config import Section
from entente.detection.alerts import Alert
from entente.detection.sinks import create as create_sink
from entente.detection.sinks.base import timestamp
from entente.service.outputs.base import Delivery, Output, Unreachable


class FileOptions(Section):
    """Files of alerts."""

    path: Path
    """Folder for the files."""
    format: Literal["jsonl", "ecs", "ocsf", "cef", "timesketch"] = "jsonl"
    """One alert per line."""


class FileOutput(Output):
    """The length of each file is stored with the delivery: what a killed process had appended without
    having said so is cut off again, so that no line stands there twice."""

    name = "file"
    summary = "one file per day: jsonl, ecs, ocsf, cef or timesketch"
    Options = FileOptions

    def __init__(self, options: FileOptions, where: str) -> None:
        super().__init__(options, where)
        self._sink = create_sink(options.format)

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        lengths: dict[str, int] = json.loads(mark) if mark else {}
        try:
            self.options.path.mkdir(parents=True, exist_ok=True)
            for day, group in groupby(alerts, key=lambda alert: timestamp(alert.start)[:10]):
                name = f"{day}{self._sink.suffix}"
                lengths[name] = self._append(name, self._sink.render(list(group)), lengths.get(name, 0))
        except OSError as error:
            raise Unreachable(f"cannot be written ({error.strerror})") from error
        recent = dict(sorted(lengths.items())[-60:])
        return Delivery(len(alerts), mark=json.dumps(recent))

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
