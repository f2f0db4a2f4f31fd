"""What can be said of the container file without an engine: every step names things that are there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from entente.cli import COMMANDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
STEPS = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]


def steps(kind: str) -> list[str]:
    return [rest for name, rest in STEPS if name == kind]


def test_every_instruction_is_one_of_a_container_file() -> None:
    known = {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in STEPS} <= known
    assert [name for name, _ in STEPS][:2] == ["ARG", "FROM"]  # the base can be pinned by its digest


def test_what_is_copied_exists_and_is_what_the_package_needs() -> None:
    copied = [name for step in steps("COPY") for name in step.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {
        "pyproject.toml",
        "requirements.lock",
        "requirements-torch.lock",
        "src",
        project["readme"],
    } <= set(copied)


def test_its_python_is_one_that_the_package_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (version,) = re.findall(r"python:3\.(\d+)-slim", TEXT)
    (least,) = re.findall(r">=\s*3\.(\d+)", project["requires-python"])
    assert int(version) >= int(least)


def test_the_command_and_those_of_the_examples_are_commands_of_the_program() -> None:
    assert json.loads(steps("ENTRYPOINT")[0]) == ["entente"]
    assert json.loads(steps("CMD")[0]) == ["--help"]
    examples = re.findall(r"^#   podman run .* entente (\w+)", TEXT, flags=re.MULTILINE)
    assert examples
    assert set(examples) <= set(COMMANDS)


def test_it_does_not_run_as_root() -> None:
    assert steps("USER") == ["entente"]
    assert [name for name, _ in STEPS].index("USER") < [name for name, _ in STEPS].index("ENTRYPOINT")
