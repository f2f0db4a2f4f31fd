"""What a production install takes is pinned, complete and the same as what the tests ran with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK, TORCH = "requirements.lock", "requirements-torch.lock"
LOCKED_EXTRAS = ("privacy", "flare", "service", "kafka", "evtx", "console", "clickhouse")
ELSEWHERE = {"colorama", "pywin32", "httpx2-jsfetch"}
"""Not installed on Linux."""


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return {canonicalize_name(n): v for n, v in re.findall(r"(?m)^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", text)}


def test_every_locked_file_has_a_sha256() -> None:
    for name in (LOCK, TORCH):
        text = (ROOT / name).read_text(encoding="utf-8")
        entries = [entry for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", text) if not entry.startswith("#")]
        assert entries
        for entry in entries:
            assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry.splitlines()[0]


def test_locked_versions_are_those_that_the_tests_run_with() -> None:
    tested, locked = pins("constraints.txt"), pins(LOCK)
    differing = {
        name: (version, tested.get(name)) for name, version in locked.items() if version != tested.get(name)
    }
    assert set(differing) <= ELSEWHERE | {"setuptools"}
    assert pins(TORCH)["torch"].partition("+")[0] == tested["torch"]


def test_the_lock_holds_every_dependency_of_a_production_site() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(r for e in LOCKED_EXTRAS for r in project["optional-dependencies"][e]),
    ]
    locked = pins(LOCK) | pins(TORCH)
    for requirement in map(Requirement, wanted):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked: make lock"
        assert requirement.specifier.contains(version.partition("+")[0]), requirement


def test_no_lock_names_an_address() -> None:
    for name in (LOCK, TORCH):
        assert not re.search(
            r"://|--(extra-)?index-url|--find-links", (ROOT / name).read_text(encoding="utf-8")
        )


def test_the_container_takes_packages_by_hash_and_its_base_can_be_pinned() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    assert "ARG BASE=" in text
    assert "FROM ${BASE}" in text
    installs = [line for line in text.splitlines() if "pip install" in line and not line.startswith("#")]
    assert installs
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation ." in line for line in installs)


def test_what_is_excused_to_ruff_is_excused_to_bandit_too() -> None:
    """bandit lives in a folder of its own (`make bandit`), so nothing else here would notice."""
    missing = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("src", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for rule in re.findall(r"# noqa: S(\d{3})", line)
        if f"B{rule}" not in line
    ]
    assert not missing
