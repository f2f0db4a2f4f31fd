"""Do what the Containerfile does, in a scratch folder: for a machine that has no container engine.

    python tools/container_stages.py FOLDER [--pip-options "--index-url ..."]

The base is a new virtual environment of this Python. COPY and RUN are done as they stand, below FOLDER; what
needs root (useradd) and what only describes the image (USER, VOLUME, EXPOSE) is said and left out. At the end
the entry point is asked for `doctor`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
DESCRIBED = ("USER", "VOLUME", "EXPOSE", "CMD")


def steps(text: str) -> list[tuple[str, str]]:
    """(instruction, its words), continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(name.upper(), re.sub(r"\s+", " ", words).strip()) for name, words in found]


class Stages:
    """A folder that becomes what the image would hold."""

    def __init__(self, folder: Path, arguments: dict[str, str]) -> None:
        self.folder = folder
        self.place = folder
        self.values = arguments
        self.entry: list[str] = []
        self.environment = {
            "PATH": f"{folder / 'base' / 'bin'}:/usr/bin:/bin",
            "HOME": os.environ.get("HOME", str(folder)),
            **{key: value for key, value in os.environ.items() if key.startswith("PIP_")},
        }

    def do(self, name: str, words: str) -> str:
        """Carry out one instruction; what was done."""
        match name:
            case "ARG":
                key, _, value = words.partition("=")
                self.values.setdefault(key, value.strip('"'))
                return f"{key}={self.values[key]}"
            case "FROM":
                subprocess.run([sys.executable, "-m", "venv", self.folder / "base"], check=True)  # noqa: S603 - fixed words # nosec B603
                return f"a virtual environment of Python {sys.version.split()[0]} in the place of {words}"
            case "WORKDIR":
                self.place = self.folder / words.lstrip("/")
                self.place.mkdir(parents=True, exist_ok=True)
                return words
            case "COPY":
                return self._copy(words.split())
            case "RUN":
                return self._run(words)
            case "ENTRYPOINT":
                self.entry = json.loads(words)
                return words
        if name not in DESCRIBED:
            raise SystemExit(f"{name} {words}: this script does not know that instruction")
        return f"{words} (not done: it only describes the image)"

    def _copy(self, words: list[str]) -> str:
        *sources, target = words
        into = self.place / target
        for source in sources:
            at = ROOT / source
            if at.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(at, into, dirs_exist_ok=True, ignore=ignored)
            elif target.endswith("/"):
                shutil.copy(at, into)
            else:
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(at, into)
        return f"{len(sources)} into {target}"

    def _run(self, command: str) -> str:
        if command.startswith("useradd "):
            return f"{command} (not done: it needs root)"
        began = time.monotonic()
        environment = self.environment | {key: value for key, value in self.values.items() if key != "BASE"}
        subprocess.run(["/bin/sh", "-ec", command], cwd=self.place, env=environment, check=True)  # noqa: S603 - fixed words # nosec B603
        return f"{command[:60]}... done in {time.monotonic() - began:.0f} s"

    def ask(self, *words: str) -> str:
        """What the entry point answers."""
        program = shutil.which(self.entry[0], path=self.environment["PATH"])
        assert program is not None, f"{self.entry[0]} is not installed in the image"
        command = [program, *self.entry[1:], *words]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)  # noqa: S603 - fixed words # nosec B603
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--pip-options", default="")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    stages = Stages(given.folder.resolve(), {"PIP_OPTIONS": given.pip_options})
    for name, words in steps((ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")):
        sys.stdout.write(f"{name}: {stages.do(name, words)}\n")
        sys.stdout.flush()
    sys.stdout.write(stages.ask("--version") + stages.ask("doctor"))


if __name__ == "__main__":
    main()
