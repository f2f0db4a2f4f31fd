"""Writes the lock files for production installs: every package with the hashes of its files.

    python tools/lock.py            requirements.lock, from pyproject.toml and constraints.txt
    python tools/lock.py --torch    requirements-torch.lock, for the build of torch that pip finds here

`uv` and `pip` ask the index that they are configured for; no address is written. torch has a file of its
own because every site chooses its build (CPU or one of several for CUDA), each with hashes of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("privacy", "flare", "service", "kafka", "evtx", "console", "clickhouse")
"""What a production site may need. pyspark is left out: it needs a Java that nobody here can pin."""
WITH_TORCH = re.compile(r"^(torch|triton|nvidia-.*|cuda-.*)$")
"""Comes with a build of torch, or does not."""
HEADER = "# Made by `make lock`; install with: pip install --require-hashes --no-deps -r {name}\n"


def packages(text: str) -> list[tuple[str, str]]:
    """(name, the package's whole entry) for every package of a requirements file."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    return [(re.split(r"[=\s\[;]", entry, maxsplit=1)[0], entry) for entry in entries if entry.strip()]


def lock() -> str:
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    command = [*("uv", "pip", "compile", "pyproject.toml", "--constraint", "constraints.txt"), *extras]
    command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
    command += ["--no-header", "--no-annotate"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603 - fixed words # nosec B603
    return "".join(entry for name, entry in packages(found) if not WITH_TORCH.match(name))


def lock_torch() -> str:
    pinned = re.search(r"(?m)^torch==\S+$", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert pinned is not None
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*command, pinned.group()], check=True)  # noqa: S603 - fixed words # nosec B603
        (wheel,) = Path(folder).iterdir()
        version = wheel.name.split("-")[1]
        with wheel.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    return f"# {wheel.name}\ntorch=={version} \\\n    --hash=sha256:{digest}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--torch", action="store_true")
    torch = parser.parse_args().torch
    name, text = ("requirements-torch.lock", lock_torch()) if torch else ("requirements.lock", lock())
    (ROOT / name).write_text(HEADER.format(name=name) + text, encoding="utf-8")


if __name__ == "__main__":
    main()
