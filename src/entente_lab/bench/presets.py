"""LANL, OpTC and Pivoting as the paper cuts them, from a folder with their original files."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from entente.errors import LogError, UsageError
from entente_lab.bench.events import Events

VERSION = 1
"""Of the cuts below: data that another version prepared are prepared again."""

DAY = 86_400.0
LANL_TRAIN = 149_400.0
"""Seconds: 83 windows. The paper says 42 hours (84 windows), but red events of second 150,885 and 151,036 lie
in the last one, from which the threshold is learnt."""
LANL_LINKS = 14 * DAY
"""Jbeil's part of LANL."""
OPTC_WINDOW = 360.0
OPTC_TRAIN = 573_290 // OPTC_WINDOW * OPTC_WINDOW
"""The cut of second 573,290 out of 745,983, in whole windows; the paper tests on the last 23 %."""
OPTC_HOSTS = ("142.20.0.0/16",)
PIVOTING_ROWS = 1_000_000

LABELS = ("redteam.csv", "redteam_events.csv", "redteam.txt", "labels.csv")
TABLES = ("*.csv", "*.csv.gz", "*.tar.gz", "*.tgz", "*.tar")


def lanl(name: str, folder: Path, source: Path) -> Events:
    logs = first(source, ("auth.txt.gz", "auth.txt"), "The authentication log of LANL cyber1.")
    labels = first(
        source,
        ("redteam.txt", "redteam.txt.gz"),
        "Without the red team's events nothing could be tested: fetch the file beside auth.txt.",
    )
    ingest([logs], folder, "lanl-auth", labels, ntlm=True)
    what = "LANL replay" if name.startswith("lanl-replay") else "LANL cyber1"
    return Events(
        name=name,
        path=folder / "events",
        hash="",
        window=1800.0,
        train=LANL_TRAIN,
        lr=0.01,
        description=f"{what}, NTLM, 30-minute windows, first {LANL_TRAIN:,.0f} s for training",
        view="auth",
        rounds=15,
        link_end=LANL_LINKS,
    )


def optc(name: str, folder: Path, source: Path) -> Events:
    labels = first(
        source, LABELS, "A table whose first column holds the ids of the red team's events, one per line."
    )
    logs = [
        path
        for path in sorted(source.rglob("*.json*"))
        if path.name.endswith((".json", ".json.gz")) and path.name != "known_addresses.json"
    ]
    if not logs:
        raise UsageError("holds no eCAR file (*.json, *.json.gz)", where=source)
    ingest(logs, folder, "optc-ecar", labels)
    from entente.logs.events import read_manifest

    return Events(
        name=name,
        path=folder / "events",
        hash="",
        window=OPTC_WINDOW,
        train=OPTC_TRAIN,
        lr=0.005,
        description=f"OpTC, FLOW/START, 6-minute windows, first {OPTC_TRAIN:,.0f} s for training",
        view="flows",
        start=read_manifest(folder / "events").first_time / 1e6,
        internal=OPTC_HOSTS,
    )


def pivoting(name: str, folder: Path, source: Path) -> Events:
    """The first million rows of the table, as the paper takes them; the rest is never read."""
    tables = [path for pattern in TABLES for path in sorted(source.glob(pattern))]
    if not tables:
        raise UsageError(f"holds none of {', '.join(TABLES)}", where=source)
    rows = folder / "first-rows.csv"
    copy_rows(tables[0], rows, PIVOTING_ROWS)
    ingest([rows], folder, "pivoting", None)
    rows.unlink()
    return Events(
        name=name,
        path=folder / "events",
        hash="",
        window=360.0,
        train=720.0,
        lr=0.003,
        description=f"Pivoting, first {PIVOTING_ROWS:,} flows, 70/15/15 by event",
        view="ports",
    )


PRESETS: Mapping[str, Callable[[str, Path, Path], Events]] = {
    "lanl-replay": lanl,
    "lanl": lanl,
    "optc": optc,
    "pivoting": pivoting,
}


def copy_rows(table: Path, target: Path, count: int) -> None:
    """The header and the first `count` rows of a table: plain, gzipped, or the first one of a tar archive."""
    with opened(table) as lines, target.open("wb") as out:
        out.writelines(islice(lines, count + 1))


@contextmanager
def opened(table: Path) -> Iterator[Iterable[bytes]]:
    try:
        if tarfile.is_tarfile(table):
            with tarfile.open(table, "r|*") as archive:  # in one pass: members are not counted first
                for member in archive:
                    if member.isfile() and member.size and not Path(member.name).name.startswith((".", "_")):
                        content = archive.extractfile(member)
                        assert content is not None
                        yield content
                        return
            raise LogError("is an archive without a file", where=table)
        with table.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with table.open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if packed else file
    except (tarfile.TarError, EOFError, OSError) as error:
        raise LogError(f"cannot be read ({error})", where=table, remedy="Fetch it again.") from error


def ingest(
    sources: Sequence[Path], folder: Path, format: str, labels: Path | None, *, ntlm: bool = False
) -> None:
    from entente.logs.formats.base import Options
    from entente.logs.ingest import Request, ingest

    names = [str(source) for source in sources]
    ingest(Request(names, folder / "events", format, Options(ntlm=ntlm), labels=labels))


def first(folder: Path, names: Sequence[str], remedy: str) -> Path:
    """The first of these files that the folder has."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise UsageError(f"holds none of {', '.join(names)}", where=folder, remedy=remedy)
