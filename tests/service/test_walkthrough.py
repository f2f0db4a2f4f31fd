"""The walk-through of docs/service.md, from Zeek's logs to a SIEM, as a reader would follow it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Server, eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8").split("## Settings")[0]
LONG = 600.0  # seconds; the machine may be busy


def shell(text: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", text],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
    )


def said(text: str, folder: Path) -> str:
    """What a command printed; it must not have failed."""
    done = shell(text, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def page_line(beginning: str) -> str:
    """The page's command that begins so."""
    (line,) = re.findall(rf"^    ({re.escape(beginning)}.*)$", PAGE, flags=re.M)
    return str(line)


def bulk(path: str, body: bytes) -> tuple[int, Any]:
    """Answers as Elasticsearch does to `_bulk`."""
    assert path == "/_bulk"
    count = len(body.splitlines()) // 2
    return 200, {"errors": False, "items": [{"create": {"status": 201}} for _ in range(count)]}


def received(server: Server) -> dict[str, dict[str, Any]]:
    """Documents at the server by their id."""
    found = {}
    for _, _, body in server.requests:
        lines = [json.loads(line) for line in body.splitlines()]
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            found[action["create"]["_id"]] = document
    return found


def delivered(folder: Path) -> list[str]:
    """Ids in the files, in order."""
    files = sorted((folder / "alerts").glob("*")) if (folder / "alerts").is_dir() else []
    return [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]


def progress(status: str, folder: Path) -> tuple[int, int]:
    """Events that were read, those before the end of training too, and alerts still to be delivered."""
    found = json.loads(said(f"{status.split('#')[0]} --json", folder))
    read = found["events"] + sum(found["dropped"].values())
    return read, sum(output["waiting"] for output in found["outputs"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_zeek_to_the_siem_as_the_page_says(tmp_path: Path, server: Server) -> None:
    server.answer = bulk
    (prepare,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S)
    (config,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    said(prepare, tmp_path)
    assert config.count("https://siem.example:9200") == 1
    here = config.replace("https://siem.example:9200", server.url)
    (tmp_path / "service.toml").write_text("port = 0\n" + here)  # the usual port may be taken

    command = page_line("entente watch service.toml   ").split("#")[0].split()
    with (tmp_path / "said.txt").open("wb") as errors:
        service = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env={**os.environ, "SIEM_API_KEY": "a-secret-key"},
            stderr=errors,
        )
    try:
        status = page_line("entente watch service.toml --status")
        eventually(lambda: (tmp_path / "service" / "status.json").exists(), LONG)
        said(page_line("awk "), tmp_path)
        written = len((tmp_path / "zeek" / "current" / "conn.log").read_text().splitlines())
        eventually(lambda: progress(status, tmp_path) == (written, 0), LONG)
        assert "source zeek: reading" in said(status, tmp_path)
    finally:
        service.send_signal(signal.SIGTERM)
        code = service.wait()
    assert code == 0, (tmp_path / "said.txt").read_text()

    listing = "entente alerts list --service service"
    stored = json.loads(said(f"{listing} --json --most 100000", tmp_path))
    ids = {alert["id"] for alert in stored}
    assert ids
    assert ids == set(delivered(tmp_path)) == set(received(server))
    assert len(delivered(tmp_path)) == len(ids)
    by_id = {alert["id"]: alert for alert in stored}
    for name, document in received(server).items():
        assert document["source"]["address"] == by_id[name]["src"]
        assert document["destination"]["address"] == by_id[name]["dst"]
    headers = {headers["Authorization"] for _, headers, _ in server.requests}
    assert headers == {"ApiKey a-secret-key"}
    assert "a-secret-key" not in (tmp_path / "said.txt").read_text()

    first = stored[0]["id"][:8]
    assert first in said(page_line(listing), tmp_path)
    for verb in ("show", "close", "suppress"):
        said(page_line(f"entente alerts {verb} --service service").replace("1f3e5fc4", first), tmp_path)
    shown = json.loads(said(f"entente alerts show --service service {first} --json", tmp_path))
    assert (shown["status"], shown["reason"]) == ("closed", "benign")
    assert stored[0]["src"] in (tmp_path / "service" / "suppressions.toml").read_text()
