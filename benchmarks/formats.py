"""JSON logs that houses have: rows per processor second of `entente ingest`, beside DuckDB's and Polars' readers.

Zeek's conn.log and Windows logons as JSON lines, and OpTC's eCAR, of which one record in ten is a flow. The
readers parse the same fields, keep the same rows and write them as Parquet; they respell no name, check no time
and set no bad row aside.

    python benchmarks/formats.py [--quick] [--rows N]
"""

# ruff: noqa: E501 - lines of logs

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

OURS = """
import sys, time
from pathlib import Path
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
import duckdb, ibis
for run in range(2):  # the first loads what a long ingest needs but once
    start = time.process_time()
    ingest(Request([sys.argv[1]], Path(sys.argv[2]) / str(run), sys.argv[3], Options()))
print(time.process_time() - start)
"""
DUCKDB = """
import duckdb, sys, time
start = time.process_time()
duckdb.sql(f"COPY ({sys.argv[3].format(sys.argv[1])}) TO '{sys.argv[2]}.parquet' (COMPRESSION zstd)")
print(time.process_time() - start)
"""
POLARS = """
import polars as pl, sys, time
start = time.process_time()
frame = eval(sys.argv[3])
frame.collect().write_parquet(f"{sys.argv[2]}.parquet")
print(time.process_time() - start)
"""


def zeek(rng: np.random.Generator, rows: int) -> list[str]:
    return [
        f'{{"ts":{1.6e9 + i / 200:.6f},"uid":"C{i:016x}","id.orig_h":"10.0.{a >> 8}.{a & 255}","id.orig_p":{p},'
        f'"id.resp_h":"10.1.{b >> 8}.{b & 255}","id.resp_p":445,"proto":"tcp","service":"smb","duration":0.21,'
        f'"orig_bytes":{p},"resp_bytes":{2 * p},"conn_state":"SF","missed_bytes":0,"orig_pkts":9,"resp_pkts":8}}'
        for i, (a, b, p) in enumerate((rng.zipf(1.2, (rows, 3)) % 20_000).tolist())
    ]


def windows(rng: np.random.Generator, rows: int) -> list[str]:
    return [
        f'{{"EventID":4624,"@timestamp":"2020-08-06T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}.198Z",'
        f'"Hostname":"WS{a}.shire.local","Channel":"Security","SourceName":"Microsoft-Windows-Security-Auditing",'
        f'"IpAddress":"10.0.{b >> 8}.{b & 255}","IpPort":"{p}","WorkstationName":"-","TargetUserName":"U{b}",'
        f'"LogonType":"3","AuthenticationPackageName":"Kerberos","Keywords":-9214364837600034816,"Severity":"INFO"}}'
        for i, (a, b, p) in enumerate((rng.zipf(1.2, (rows, 3)) % 20_000).tolist())
    ]


def ecar(rng: np.random.Generator, rows: int) -> list[str]:
    kinds = [
        ("FLOW", "START"),
        *[("PROCESS", "OPEN")] * 4,
        *[("FILE", "READ")] * 3,
        *[("THREAD", "CREATE")] * 2,
    ]
    return [
        f'{{"action":"{kinds[i % 10][1]}","actorID":"{i:08x}-dbc2-41ce-aa34-0351bf5a71d0","hostname":"S{a}.systemia.com",'
        f'"id":"{i:08x}-aaaa-41ce-aa34-0351bf5a71d0","object":"{kinds[i % 10][0]}","objectID":"{i:08x}-bbbb-41ce",'
        f'"pid":{p},"ppid":4,"principal":"NT AUTHORITY","properties":{{"src_ip":"142.20.{a >> 8}.{a & 255}",'
        f'"dest_ip":"142.20.{b >> 8}.{b & 255}","dest_port":"445","l4protocol":"6","direction":"outbound",'
        f'"image_path":"System","acuity_level":"1"}},"tid":{p},"timestamp":"2019-09-23T09:39:{i % 60:02}.331-04:00"}}'
        for i, (a, b, p) in enumerate((rng.zipf(1.2, (rows, 3)) % 20_000).tolist())
    ]


ECAR_TYPE = "STRUCT(src_ip VARCHAR, dest_ip VARCHAR, dest_port VARCHAR, l4protocol VARCHAR, direction VARCHAR, image_path VARCHAR)"
FORMATS = {
    "zeek": (
        zeek,
        "SELECT * FROM read_ndjson('{}', columns = {{ts: 'DOUBLE', \"id.orig_h\": 'VARCHAR', \"id.resp_h\": 'VARCHAR', "
        "\"id.resp_p\": 'INTEGER', proto: 'VARCHAR', service: 'VARCHAR', conn_state: 'VARCHAR', orig_bytes: 'BIGINT', "
        "resp_bytes: 'BIGINT'}})",
        "pl.scan_ndjson(sys.argv[1], schema={'ts': pl.Float64, 'id.orig_h': pl.String, 'id.resp_h': pl.String, "
        "'id.resp_p': pl.Int32, 'proto': pl.String, 'service': pl.String, 'conn_state': pl.String, "
        "'orig_bytes': pl.Int64, 'resp_bytes': pl.Int64})",
    ),
    "windows": (
        windows,
        "SELECT * FROM read_ndjson('{}', columns = {{EventID: 'INTEGER', \"@timestamp\": 'VARCHAR', Hostname: 'VARCHAR', "
        "Channel: 'VARCHAR', IpAddress: 'VARCHAR', WorkstationName: 'VARCHAR', TargetUserName: 'VARCHAR', "
        "LogonType: 'VARCHAR', AuthenticationPackageName: 'VARCHAR'}}) WHERE EventID IN (4624, 4625, 4648)",
        "pl.scan_ndjson(sys.argv[1], schema={'EventID': pl.Int64, '@timestamp': pl.String, 'Hostname': pl.String, "
        "'Channel': pl.String, 'IpAddress': pl.String, 'WorkstationName': pl.String, 'TargetUserName': pl.String, "
        "'LogonType': pl.String, 'AuthenticationPackageName': pl.String}).filter(pl.col('EventID').is_in([4624, 4625, 4648]))",
    ),
    "optc-ecar": (
        ecar,
        "SELECT * FROM read_ndjson('{}', columns = {{timestamp: 'VARCHAR', id: 'VARCHAR', object: 'VARCHAR', "
        f"action: 'VARCHAR', principal: 'VARCHAR', properties: '{ECAR_TYPE}'}}}}) WHERE object = 'FLOW' AND action = 'START'",
        "pl.scan_ndjson(sys.argv[1], schema={'timestamp': pl.String, 'id': pl.String, 'object': pl.String, "
        "'action': pl.String, 'principal': pl.String, 'properties': pl.Struct({name: pl.String for name in "
        "('src_ip', 'dest_ip', 'dest_port', 'l4protocol', 'direction', 'image_path')})}"
        ").filter((pl.col('object') == 'FLOW') & (pl.col('action') == 'START'))",
    ),
}


def spent(*words: object) -> float:
    """Processor seconds that a script measured about itself, imports left out."""
    done = subprocess.run(
        [sys.executable, "-c", *map(str, words)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20,000 rows")
    parser.add_argument("--rows", type=int, default=400_000)
    given = parser.parse_args()
    rows = 20_000 if given.quick else given.rows
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as name:
        for number, (kind, (lines, query, frame)) in enumerate(FORMATS.items()):
            log, out = Path(name) / f"{kind}.json", Path(name) / kind
            log.write_text("\n".join(lines(np.random.default_rng(number), rows)) + "\n")
            ours = spent(OURS, log, out, kind)
            duckdb, polars = spent(DUCKDB, log, out, query), spent(POLARS, log, out, frame)
            said = ", ".join(
                f"{who} {rows / s:,.0f}"
                for who, s in (("ours", ours), ("DuckDB", duckdb), ("Polars", polars))
            )
            print(
                f"{kind}: {rows:,} rows of {log.stat().st_size / rows:.0f} bytes; rows per processor second: {said}"
            )
            ratios |= {
                f"{kind}: rows per CPU s": round(rows / ours),
                f"{kind}: processor time / DuckDB's reader": round(ours / duckdb, 2),
                f"{kind}: processor time / Polars' reader": round(ours / polars, 2),
            }
            log.unlink()
    print(json.dumps({"benchmark": "formats", "rows": rows, "ratios": ratios}))


if __name__ == "__main__":
    main()
