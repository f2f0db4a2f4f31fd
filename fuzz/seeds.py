"""Writes a starting corpus: the samples of all formats, plain and packed, and small tables.

python fuzz/seeds.py CORPUS
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import zipfile
from pathlib import Path

import zstandard

from entente.logs.formats import formats

HOSTS = {
    "json": '{"10.0.0.1": "ws1"}',
    "csv": "ip,name,from,until\n10.0.0.1,ws1,2024-01-01T00:00:00Z,1704153600\n",
    "isc": 'lease 10.0.0.1 {\n  starts 4 2020/08/06 12:00:00;\n  ends never;\n  client-hostname "ws1";\n}\n',
    "zeek": '{"ts":1.5,"mac":"aa","host_name":"ws1","assigned_addr":"10.0.0.1","lease_time":60.0}\n',
    "tabs": "#separator \\x09\n#fields\tts\thost_name\tassigned_addr\tlease_time\n1.5\tws1\t10.0.0.1\t60\n",
}
LABELS = {"lanl": "1,U1@D,C1,C2\n", "optc": "fa54c298-dbc2-41ce-aa34-0351bf5a71d0,x\n"}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, format in formats().items():
        text = format.sample.encode()
        (folder / f"{name}.log").write_bytes(text)
        if text.startswith(b"{"):
            rows = [json.loads(line) for line in text.splitlines()]
            (folder / f"{name}.array").write_text(json.dumps(rows, indent=1))
            (folder / f"{name}.wrapped").write_text("\n".join(json.dumps({"_source": row}) for row in rows))
    text = formats()["lanl-auth"].sample.encode()
    for name, pack in {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.compress,
    }.items():
        (folder / f"auth.{name}").write_bytes(pack(text))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("auth.txt", text)
    (folder / "auth.zip").write_bytes(archive.getvalue())
    for name, table in {**HOSTS, **LABELS}.items():
        (folder / f"table.{name}").write_text(table)


if __name__ == "__main__":
    main()
