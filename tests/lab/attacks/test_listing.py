"""`entente attacks`."""

from __future__ import annotations

import json

import pytest

from entente.cli import main
from entente_lab.attacks import available


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["attacks", *words])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_every_attack_is_listed_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed(capsys).splitlines()
    assert [line.split()[0] for line in lines] == sorted(available())
    assert all(len(line.split()) > 3 for line in lines)


def test_the_list_is_there_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(listed(capsys, "--json"))
    assert {item["name"]: item["summary"] for item in found} == {
        name: attack.summary for name, attack in available().items()
    }
