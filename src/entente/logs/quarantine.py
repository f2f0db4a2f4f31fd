"""Rows that cannot be read: kept with file, line number and reason, never silently lost."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import IO

from entente.logs.pipeline import BadRow

FOLDER = "quarantine"
FILE = "rows.jsonl"


class Quarantine:
    """Writes `quarantine/rows.jsonl`, one object per bad row; no bad row, no folder."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self._file: IO[str] | None = None

    def __enter__(self) -> Quarantine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, file: str, rows: list[BadRow]) -> None:
        if not rows:
            return
        if self._file is None:
            self._folder.mkdir()
            self._file = (self._folder / FILE).open("w", encoding="utf-8", newline="\n")
        for row in rows:
            entry = {"file": file, "line": row.line, "reason": row.reason, "text": row.text}
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
