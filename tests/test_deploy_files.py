"""Workflow, compose and Kubernetes files are valid by their schemas, and agree with each other."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from entente import __version__

ROOT = Path(__file__).parents[1]
YAML = [".github", ".gitlab-ci.yml", ".yamllint", "CITATION.cff", "deploy", ".pre-commit-config.yaml"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_every_yaml_file_is_tidy() -> None:
    pytest.importorskip("yamllint")
    done = subprocess.run(
        [sys.executable, "-m", "yamllint", "-s", *YAML], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", [".github/workflows/checks.yml", ".github/workflows/release.yml"]),
        ("gitlab-ci", [".gitlab-ci.yml"]),
        ("compose-spec", ["deploy/compose.yaml"]),
        ("citation-file-format", ["CITATION.cff"]),
    ],
)
def test_files_of_hosts_fit_their_schemas(schema: str, files: list[str]) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_kubernetes_files_fit_the_schemas_of_kubernetes() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: the files cannot be rendered")
    done = subprocess.run(
        ["kubectl", "kustomize", "deploy/kubernetes"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    resources = list(yaml.safe_load_all(done.stdout))
    assert [one["metadata"]["name"] for one in resources if one["kind"] == "StatefulSet"] == [
        *("coordinator", "north", "south", "west"),
    ]
    for resource in resources:
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
        for pod in [resource["spec"]["template"]["spec"]] if resource["kind"] == "StatefulSet" else []:
            assert pod["containers"][0]["image"] == f"registry.example/entente:{__version__}"


def test_every_step_of_the_image_can_be_done_without_a_container_engine() -> None:
    stages = runpy.run_path(str(ROOT / "tools" / "container_stages.py"))
    found = stages["steps"]((ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8"))
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT", *stages["DESCRIBED"]}
    assert {name for name, _ in found} <= known
    for words in (words.split() for name, words in found if name == "COPY"):
        assert all((ROOT / source).exists() for source in words[:-1])


def test_compose_has_three_silos_that_nobody_reaches() -> None:
    services = read("deploy/compose.yaml")["services"]
    silos = [name for name, one in services.items() if "--events" in one["command"]]
    assert silos == ["north", "south", "west"]
    for one in services.values():
        assert "ports" not in one
        assert one["image"] == f"entente:{__version__}"
        assert one["cap_drop"] == ["ALL"]
    assert read("deploy/compose.yaml")["networks"]["federation"]["internal"] is True


def test_workflows_call_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    called: set[str] = set()
    for name in (".github/workflows/checks.yml", ".github/workflows/release.yml", ".gitlab-ci.yml"):
        for words in re.findall(
            r"(?:run: |- )make ([a-z -]+)$", (ROOT / name).read_text("utf-8"), flags=re.M
        ):
            called |= set(words.split())
    assert {"test", "docs", "wheel", "sbom"} <= called
    assert called <= targets


def test_workflows_install_what_tests_are_skipped_without_and_keep_their_pictures() -> None:
    github = read(".github/workflows/checks.yml")["jobs"]["test"]["steps"]
    gitlab = read(".gitlab-ci.yml")["test"]
    for words in (str(github), str(gitlab["script"])):
        assert all(name in words for name in ("openjdk-17-jre-headless", "rsyslog", "chromium"))
    kept = [one["with"]["path"] for one in github if "upload-artifact" in one.get("uses", "")]
    assert kept == gitlab["artifacts"]["paths"] == ["build/pictures"]


def test_the_version_is_the_same_wherever_it_is_repeated() -> None:
    assert read("CITATION.cff")["version"] == __version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", changes, flags=re.M)


def test_the_matrix_has_every_python_that_is_promised() -> None:
    wanted = ["3.11", "3.12", "3.13"]
    assert read(".github/workflows/checks.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == wanted
    assert read(".gitlab-ci.yml")["test"]["parallel"]["matrix"][0]["PYTHON"] == wanted
