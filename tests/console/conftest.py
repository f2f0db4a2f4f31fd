"""Consoles over small stores; see house.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from entente.detection.alerts import Alert

if TYPE_CHECKING:
    from .house import House


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., House]]:
    from entente.console.settings import ConsoleSettings

    from .house import House, fill, some_alerts

    houses: list[House] = []

    def make(alerts: tuple[Alert, ...] | None = None, **more: Any) -> House:
        folder = tmp_path / f"service{len(houses)}"
        folder.mkdir()
        fill(folder, some_alerts() if alerts is None else alerts)
        houses.append(House(ConsoleSettings(data=folder / "console", service=folder, **more)))
        return houses[-1]

    yield make
    for house in houses:
        house.desk.close()


@pytest.fixture
def house(build: Callable[..., House]) -> House:
    return build()
