"""Plug-ins are found by entry points; a broken one is named and leaves the others alone."""

from __future__ import annotations

import inspect
import pkgutil
import textwrap
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from entente.errors import PluginError, UsageError
from entente.registry import AGGREGATORS, DETECTORS, FORMATS, SINKS, Registry, suggestion

REGISTRIES = (FORMATS, DETECTORS, AGGREGATORS, SINKS)

MODULE = """
    from entente.detection.sinks.base import Sink

    class Good(Sink):
        name, summary, suffix = "good", "Says hello.", ".txt"

        def render(self, alerts):
            return "hello"

    class Renamed(Good):
        name = "another"

    class Unfinished(Sink):
        name, summary, suffix = "unfinished", "Not done.", ".txt"

    class Stranger:
        name, summary = "stranger", "Of another family."
"""
POINTS = """
    [entente.sinks]
    good = stranger_plugin:Good
    renamed = stranger_plugin:Renamed
    unfinished = stranger_plugin:Unfinished
    stranger = stranger_plugin:Stranger
    absent = stranger_plugin.nowhere:Sink
    jsonl = stranger_plugin:Good
"""


@pytest.fixture
def sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The registry of sinks where somebody else's package is installed too."""
    (tmp_path / "stranger_plugin.py").write_text(textwrap.dedent(MODULE))
    about = tmp_path / "stranger_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(textwrap.dedent(POINTS))
    monkeypatch.syspath_prepend(tmp_path)
    return Registry(SINKS.group, SINKS.kind, "entente.detection.sinks.base:Sink")


def test_a_strangers_plug_in_is_found_beside_ours(sinks: Registry) -> None:
    assert sinks.load("good").summary == "Says hello."
    assert sinks.package("good") == "stranger-plugin"
    assert {"good", "cef"} <= set(sinks.available())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("renamed", "calls itself 'another'"),
        ("unfinished", "does not define render"),
        ("stranger", "is not a subclass of"),
        ("absent", "cannot be imported: ModuleNotFoundError"),
        ("jsonl", "two packages offer the alert format 'jsonl'"),
    ],
)
def test_a_broken_plug_in_is_named_and_leaves_the_others_alone(sinks: Registry, name: str, said: str) -> None:
    with pytest.raises(PluginError, match=said) as caught:
        sinks.load(name)
    assert name in str(caught.value)
    assert name in sinks.broken()
    assert name not in sinks.available()
    assert {"good", "cef", "ecs", "ocsf", "stix"} <= set(sinks.available())


def test_an_unknown_name_is_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match="Did you mean 'jsonl'"):
        SINKS.load("json")
    assert suggestion("xyzzy", ["b", "a"]) == "Known are: a, b."


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
def test_all_of_our_own_plug_ins_can_be_used(registry: Registry) -> None:
    assert registry.broken() == {}
    assert set(registry.available()) == set(registry.names()) == set(entry_points(group=registry.group).names)


@pytest.mark.parametrize(
    ("group", "package", "base"),
    [
        ("entente.formats", "entente.logs.formats", "entente.logs.formats.base:Format"),
        ("entente.detectors", "entente.detectors", "entente.detectors.base:Detector"),
        (
            "entente.aggregators",
            "entente.federation.aggregators",
            "entente.federation.aggregators.base:Aggregator",
        ),
        ("entente.sinks", "entente.detection.sinks", "entente.detection.sinks.base:Sink"),
        ("entente_lab.attacks", "entente_lab.attacks", "entente_lab.attacks.base:Attacker"),
    ],
)
def test_no_plug_in_of_ours_lacks_its_entry_point(group: str, package: str, base: str) -> None:
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = base.partition(":")
    contract = getattr(import_module(module), name)
    written = {
        vars(found)["name"]: f"{found.__module__}:{found.__name__}"
        for part in pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
        for found in vars(import_module(part.name)).values()
        if inspect.isclass(found)
        and issubclass(found, contract)
        and found.__module__ == part.name
        and not inspect.isabstract(found)
        and "name" in vars(found)
    }
    offered = declared["entry-points"][group]
    assert {name: value for name, value in offered.items() if value.startswith(package)} == written


def test_names_are_known_without_importing_a_plug_in(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from entente.registry import DETECTORS; print(DETECTORS.names());"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "euler" in done.stdout
    assert "False False" in done.stdout
