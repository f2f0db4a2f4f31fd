"""Files made to hurt: bombs, deep nesting, encrypted and overlapping archives end in a clear error."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import entente.logs.sources as sources
from entente.cli import main
from entente.errors import LogError, UsageError
from entente.logs.decompression import opened
from entente.logs.ingest import Request, ingest

ROW = b"1,U1@D,U1@D,C1,C2,NTLM,Network,LogOn,Success\n"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a megabyte were much, so that the bombs of the tests can be small."""
    monkeypatch.setattr(sources, "HARMLESS", 1 << 20)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("kind", PACK)
def test_a_compressed_file_that_unfolds_too_far_is_refused_and_can_be_allowed(
    tmp_path: Path, kind: str
) -> None:
    bomb = tmp_path / "auth.txt.packed"
    bomb.write_bytes(PACK[kind](ROW * 100_000))
    with pytest.raises(LogError, match="unfolds to more than") as refused:
        ingest(Request([str(bomb)], tmp_path / "events"))
    assert "--max-expansion" in str(refused.value)
    assert not (tmp_path / "events").exists()
    assert ingest(Request([str(bomb)], tmp_path / "events", max_expansion=0)).rows == 100_000
    with pytest.raises(UsageError, match="--max-expansion"):
        ingest(Request([str(bomb)], tmp_path / "events", max_expansion=-1))


@pytest.mark.usefixtures("small_limit")
def test_a_bomb_without_a_line_end_is_refused_while_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\x00" * 20_000_000))
    with pytest.raises(LogError, match="unfolds to more than"):
        ingest(Request([str(tmp_path / "bomb.gz")], tmp_path / "events"))


@pytest.mark.usefixtures("small_limit")
def test_a_zip_bomb_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with zipfile.ZipFile(tmp_path / "logs" / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("auth.txt", ROW * 300_000)
    with pytest.raises(LogError, match=r"a.zip!auth.txt: unfolds to more than"):
        ingest(Request([str(tmp_path / "logs")], tmp_path / "events"))


@pytest.mark.usefixtures("small_limit")
def test_a_labels_file_is_no_way_around_the_limit(tmp_path: Path) -> None:
    (tmp_path / "auth.txt").write_bytes(ROW)
    (tmp_path / "red.gz").write_bytes(gzip.compress(b"1,U1@D,C1,C2\n" * 500_000))
    with pytest.raises(LogError, match="unfolds to more than"):
        ingest(Request([str(tmp_path / "auth.txt")], tmp_path / "events", labels=tmp_path / "red.gz"))


@pytest.mark.parametrize("kind", PACK)
def test_a_bomb_is_unfolded_in_small_pieces(tmp_path: Path, kind: str) -> None:
    (tmp_path / "bomb").write_bytes(PACK[kind](bytes(200_000_000)))
    with opened(tmp_path / "bomb", None, lambda _: None) as chunks:
        lengths = [len(chunk) for chunk in chunks]
    assert sum(lengths) == 200_000_000
    assert max(lengths) <= 1 << 25


@pytest.mark.parametrize("kind", PACK)
def test_streams_end_to_end_are_one_text_however_they_are_cut(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import entente.logs.decompression as decompression

    text = b"".join(b"%d,line\n" % i for i in range(3000))
    (tmp_path / "log").write_bytes(PACK[kind](text[:7000]) + PACK[kind](text[7000:]) + b"\x00" * 100)
    for piece, compressed, zstd in ((1 << 22, 1 << 16, 1 << 10), (100, 33, 7), (1, 1, 1)):
        monkeypatch.setattr(decompression, "PIECE", piece)
        monkeypatch.setattr(decompression, "COMPRESSED_PIECE", compressed)
        monkeypatch.setattr(decompression, "ZSTD_PIECE", zstd)
        if compressed < 6:
            monkeypatch.setattr(decompression, "COMPRESSED_PIECE", 6)  # the first bytes tell the kind
        with opened(tmp_path / "log", None, lambda _: None) as chunks:
            assert b"".join(chunks) == text


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_deep_nesting_in_the_first_line_is_a_bad_row_and_no_traceback(
    tmp_path: Path, opening: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = opening * 200_000
    event = {"ts": 1.5, "uid": "C", "id.orig_h": "a", "id.resp_h": "b", "proto": "tcp", "conn_state": "SF"}
    (tmp_path / "conn.log").write_text(deep + "\n" + json.dumps(event) + "\n")
    assert ingest(Request([str(tmp_path / "conn.log")], tmp_path / "events")).rows == 1
    (tmp_path / "only.json").write_text(deep + "\n")
    with pytest.raises(SystemExit) as end:
        main(["ingest", str(tmp_path / "only.json"), "--out", str(tmp_path / "out")])
    assert end.value.code == 4
    assert "Traceback" not in capsys.readouterr().err


def test_an_encrypted_or_overlapping_archive_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("auth.txt", ROW)
    plain = (tmp_path / "a.zip").read_bytes()
    flags = bytearray(plain)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        flags[plain.index(mark) + place] |= 1
    (tmp_path / "encrypted.zip").write_bytes(flags)
    with pytest.raises(LogError, match=r"damaged zip file .*encrypted"):
        ingest(Request([str(tmp_path / "encrypted.zip")], tmp_path / "events"))
    directory = plain.index(b"PK\x01\x02")
    end = plain.index(b"PK\x05\x06")
    entry = plain[directory:end]
    many = 200
    closing = bytearray(plain[end:])
    closing[8:12] = many.to_bytes(2, "little") * 2
    closing[12:16] = (len(entry) * many).to_bytes(4, "little")
    entry = entry[:20] + (1 << 20).to_bytes(4, "little") + entry[24:]  # what one member claims to take
    entries = b"".join(entry.replace(b"auth", b"a%03d" % i) for i in range(many))
    (tmp_path / "overlap.zip").write_bytes(plain[:directory] + entries + bytes(closing))
    with pytest.raises(LogError, match="members overlap"):
        ingest(Request([str(tmp_path / "overlap.zip")], tmp_path / "events"))


def test_memory_stays_bounded_while_a_bomb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.zst").write_bytes(zstandard.compress(ROW * 4_000_000))
    tracemalloc.start()
    with pytest.raises(LogError, match="unfolds to more than"):
        ingest(Request([str(tmp_path / "bomb.zst")], tmp_path / "events"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000_000
