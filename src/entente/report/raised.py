"""What `detect` and `watch` raised after the run, beside what the run itself raised."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from entente.detection.alerts import Alert
from entente.detection.incidents import list_incidents
from entente.detection.table import read_table
from entente.errors import StorageError, UsageError
from entente.report.data import ReportData
from entente.service.alerts import AlertStore, Filter
from entente.service.database import connect
from entente.service.service import DATABASE
from entente.text import count

MOST = 100_000
"""Alerts that are taken from a service's store, the most severe and newest first."""


def read_raised(path: Path) -> tuple[Alert, ...]:
    """Alerts of a file of `entente detect` (jsonl), of an alerts.parquet, or of a service's folder."""
    if (path / DATABASE).is_file():
        connection = connect(path / DATABASE)
        try:
            return tuple(one.alert for one in AlertStore(connection).find(Filter(), MOST))
        finally:
            connection.close()
    if path.suffix == ".parquet":
        return read_table(path).alerts
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot be read ({error})",
            where=path,
            remedy="Give a jsonl file of `entente detect` or the folder of a service.",
        ) from error
    return tuple(_alert(path, number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _alert(path: Path, number: int, line: str) -> Alert:
    try:
        table = json.loads(line)
        return Alert.from_dict(table if isinstance(table, dict) else {})
    except (ValueError, StorageError) as error:
        raise StorageError(
            "is not an alert", where=path, line=number, remedy="Write alerts with --format jsonl."
        ) from error


def with_raised(data: ReportData, raised: tuple[Alert, ...], source: str) -> ReportData:
    """The report with these alerts and their incidents too; one that the run has already counts once."""
    known = {alert.id for alert in data.alerts}
    new = tuple(alert for alert in raised if alert.id not in known)
    alerts = (*data.alerts, *new)
    said = f"{count(len(raised), 'alert')} of {source}, {len(new)} of them after the run's own windows"
    incidents = list_incidents(alerts, further=data.further)
    return replace(data, alerts=alerts, incidents=incidents, facts=(*data.facts, ("Also shown", said)))
