"""How many settings there are: those of every run, those of the default plug-ins, those of all plug-ins."""

from __future__ import annotations

import pytest

from entente.config.page import described

MOST = 50
"""What a user of the defaults has to read about; what only ablates or reproduces belongs in the lab."""


def test_a_run_with_the_default_plug_ins_has_about_forty_settings(capsys: pytest.CaptureFixture[str]) -> None:
    sections = list(described("entente"))
    every = sum(len(section.fields) for section in sections if not section.plugin)
    of = {section.plugin: len(section.fields) for section in sections if section.plugin}
    default = every + of['name = "behaviour"'] + of['rule = "entente"']
    with capsys.disabled():
        print(
            f"settings: {every} of every run, {default} with the defaults, {every + sum(of.values())} in all"
        )
    assert default <= MOST
