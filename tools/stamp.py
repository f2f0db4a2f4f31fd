"""Build facts for `entente --version`: `python tools/stamp.py` before a build, `--remove` after it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STAMP = ROOT / "src" / "entente" / "build.json"


def facts() -> dict[str, str]:
    """The commit, and its date rather than today's: the same commit gives the same bytes."""
    commit = os.environ.get("ENTENTE_COMMIT") or _git("rev-parse", "HEAD") or "unknown"
    moment = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or "0"
    changed = " with changes" if _git("status", "--porcelain", "--untracked-files=no") else ""
    built = time.strftime("%Y-%m-%d", time.gmtime(int(moment)))
    return {"commit": commit + changed, "built": built}


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)  # noqa: S603, S607 - fixed words # nosec B603, B607
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remove", action="store_true")
    if parser.parse_args().remove:
        STAMP.unlink(missing_ok=True)
    else:
        STAMP.write_text(json.dumps(facts(), sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
