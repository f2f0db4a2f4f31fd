"""Log files as the real tools write them: LANL's auth.txt, Zeek's conn.log, a plain CSV."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from entente.artifacts import replacing
from entente.errors import StorageError, UsageError
from entente.logs.schema import MICROSECONDS
from entente_lab.simulator.run import Simulation

FORMATS: Final = ("lanl", "zeek", "csv")
BARE = csv.WriteOptions(include_header=False, quoting_style="none", batch_size=65_536)
ZEEK_SERVICE = {445: "smb", 135: "dce_rpc", 3389: "rdp", 5985: "http", 389: "ldap", 80: "http",
                443: "ssl", 22: "ssh", 993: "ssl", 3128: "http"}  # fmt: skip


def write(simulation: Simulation, out: Path, format: str = "lanl") -> tuple[Path, ...]:
    """Write the logs and the ground truth into `out`; returns the files, the log first.

    lanl: auth.txt.gz, redteam.txt. zeek: conn.log (JSON, labelled, hosts by address), subnets.csv.
    csv: events.csv. Always hosts.csv and attack.csv, with hosts named as the log names them. Times are
    whole seconds in every file. Where addresses change hands, hosts.csv by address names the first holder,
    and leases.csv tells who had an address when.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", remedy=f"Choose one of {', '.join(FORMATS)}.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot become a directory ({error.strerror})", where=out, remedy="Choose another place."
        ) from error
    writer = {"lanl": _write_lanl, "zeek": _write_zeek, "csv": _write_csv}[format]
    logs = writer(simulation, out)
    hosts, attack = simulation.hosts, simulation.attack
    named = hosts.column("address" if format == "zeek" else "host")
    if format == "zeek":
        attack = _by_address(attack, simulation.leases)
        if len(simulation.leases) > len(hosts):
            logs = (*logs, _table(out / "leases.csv", _in_seconds(simulation.leases, "begin", "end")))
    table = pa.table(
        {
            "host": named,
            "site": hosts["site"],
            "role": hosts["role"],
            "name": hosts["host"],
            "address": hosts["address"],
        }
    )
    return (*logs, _table(out / "hosts.csv", table), _table(out / "attack.csv", _in_seconds(attack)))


def _write_lanl(simulation: Simulation, out: Path) -> tuple[Path, ...]:
    events = simulation.events
    rows = len(events)
    lines = pa.table(
        {
            "time": pc.divide(events["time"], MICROSECONDS),
            "source_user": events["user"],
            "destination_user": events["user"],
            "src": events["src"],
            "dst": events["dst"],
            "package": events["kind"],
            "logon": events["logon"],
            "orientation": pa.repeat(pa.scalar("LogOn"), rows),
            "result": pc.if_else(events["outcome"], "Success", "Fail"),
        }
    )
    # No name and no time in the gzip header: the same simulation is the same file, byte for byte.
    auth = out / "auth.txt.gz"
    with (
        replacing(auth) as temporary,
        temporary.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=4, fileobj=raw, mtime=0) as packed,
    ):
        csv.write_csv(lines, packed, BARE)
    red = simulation.attack
    redteam = out / "redteam.txt"
    with replacing(redteam) as temporary:
        csv.write_csv(
            pa.table(
                {
                    "time": pc.divide(red["time"], MICROSECONDS),
                    "user": red["user"],
                    "src": red["src"],
                    "dst": red["dst"],
                }
            ),
            temporary,
            BARE,
        )
    return auth, redteam


def _write_zeek(simulation: Simulation, out: Path) -> tuple[Path, ...]:
    import polars as pl

    events = _by_address(simulation.events, simulation.leases)
    rows = len(events)
    rng = np.random.default_rng([simulation.config.seed, rows])
    port, volume = events["port"].to_numpy(), events["bytes"].to_numpy()
    sent = (volume * rng.uniform(0.05, 0.95, rows)).astype(np.int64)
    services = pl.Series([ZEEK_SERVICE.get(int(p)) for p in range(10_000)], dtype=pl.String)
    lines = pl.DataFrame(
        {
            "ts": events["time"].to_numpy() / MICROSECONDS,
            "uid": "C" + pl.int_range(rows, eager=True).cast(pl.String).str.zfill(17),
            "id.orig_h": pl.from_arrow(events["src"]),
            "id.orig_p": rng.integers(49_152, 65_535, rows),
            "id.resp_h": pl.from_arrow(events["dst"]),
            "id.resp_p": port,
            "proto": pl.Series(["tcp"]).new_from_index(0, rows),
            "service": services.gather(port),
            "duration": np.round(rng.exponential(2.0, rows), 6),
            "orig_bytes": sent,
            "resp_bytes": volume - sent,
            "conn_state": pl.Series(["SF"]).new_from_index(0, rows),
            "label": pl.from_arrow(pc.if_else(pc.equal(events["label"], 1), "Malicious", "Benign")),
        }
    )
    if simulation.config.preset != "classic":
        # Zeek can be told to add these to conn.log from ntlm.log and kerberos.log, which share its uid.
        lines = lines.with_columns(
            username=pl.Series(events["user"].to_pylist()), success=pl.Series(events["outcome"].to_pylist())
        )
    conn = out / "conn.log"
    with replacing(conn) as temporary:
        lines.write_ndjson(temporary)
    hosts = simulation.hosts
    nets = pc.replace_substring_regex(hosts["address"], r"^(\d+\.\d+)\..*", r"\1.0.0/16")
    pairs = pa.table({"silo": hosts["site"], "cidr": nets}).group_by(["silo", "cidr"], use_threads=False)
    return conn, _table(out / "subnets.csv", pairs.aggregate([]))


def _write_csv(simulation: Simulation, out: Path) -> tuple[Path, ...]:
    return (_table(out / "events.csv", _in_seconds(simulation.events)),)


def _in_seconds(table: pa.Table, *names: str) -> pa.Table:
    for name in names or ("time",):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pc.divide(table[name], MICROSECONDS))
    return table


def _by_address(table: pa.Table, leases: pa.Table) -> pa.Table:
    """Hosts by the address they had at the time."""
    names, number = np.unique(leases["host"].to_numpy(), return_inverse=True)
    order = np.lexsort((leases["begin"].to_numpy(), number))
    span = 1 + int(leases["end"].to_numpy().max())
    keys = number[order] * span + leases["begin"].to_numpy()[order]
    addresses = leases["address"].take(pa.array(order))
    time = table["time"].to_numpy()
    for name in ("src", "dst"):
        host = pc.index_in(table[name], value_set=pa.array(names)).to_numpy()
        found = np.searchsorted(keys, host.astype(np.int64) * span + time, side="right") - 1
        where = table.schema.get_field_index(name)
        table = table.set_column(where, table.schema.field(name), addresses.take(pa.array(found)))
    return table


def _table(path: Path, table: pa.Table) -> Path:
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write((",".join(table.column_names) + "\n").encode())
        csv.write_csv(table, file, BARE)
    return path
