"""Any table with a time, a source and a destination, its columns named by the user."""

from __future__ import annotations

from entente.errors import UsageError
from entente.logs.formats.base import Column, Delimited, Event, Format, Head, Options, Table
from entente.logs.formats.expressions import label, logon, null, outcome, port, text, whole, with_time
from entente.logs.schema import COLUMNS, REQUIRED

DELIMITERS = (",", "\t", ";", "|", " ")
UNSET = ("-", "NULL", "null", "None", "NaN", "nan", "\\N")


class Csv(Format):
    name = "csv"
    summary = "any delimited table; columns by --map time=ts --map src=client ... or --map FILE.toml"
    sample = (
        "time,src,dst,user,kind,port,bytes,label\n"
        '2024-03-01T08:00:00+01:00,ws-1,"srv-1",anna,smb,445,1200,0\n'
        "1709280000.5,fe80::1,2001:db8::7,,ssh,22,,1\n"
    )
    rank = 9

    def recognise(self, head: Head) -> str | None:
        names = _names(head.first, _delimiter(head.first))
        if set(REQUIRED) <= set(names):
            return "its header names time, src and dst"
        return None

    def layout(self, head: Head, options: Options) -> Delimited:
        delimiter = options.delimiter or _delimiter(head.first)
        names = _names(head.first, delimiter)
        columns = names if options.header else tuple(str(i + 1) for i in range(len(names)))
        chosen = _chosen(columns, options)
        role = {column: name for name, column in chosen.items()}
        return Delimited(
            tuple(role.get(column, f"_{place}") for place, column in enumerate(columns)),
            used=tuple(role.values()),
            delimiter=delimiter,
            quoted=True,
            skip=1 if options.header else 0,
        )

    def event(self, raw: Table, options: Options) -> Event:
        rows = with_time(raw, text(raw.time, *UNSET), options.time_unit)

        def value(name: str) -> Column:
            return text(rows[name], *UNSET) if name in rows.columns else null()

        return Event(
            rows=rows,
            time=rows.time,
            src=value("src"),
            dst=value("dst"),
            user=value("user"),
            kind=value("kind"),
            logon=logon(value("logon")),
            port=port(value("port")),
            bytes=whole(value("bytes")),
            outcome=outcome(value("outcome")),
            label=label(value("label")),
            word=value("label"),
            local=rows.local,
        )


def _delimiter(header: str) -> str:
    """The delimiter that cuts the header most often; the comma in doubt."""
    return max(DELIMITERS, key=header.count)


def _names(header: str, delimiter: str) -> tuple[str, ...]:
    """Column names, each made unique, so that positions stay meaningful."""
    seen: dict[str, int] = {}
    names = []
    for part in header.split(delimiter):
        name = part.strip().strip('"')
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(names)


def _chosen(columns: tuple[str, ...], options: Options) -> dict[str, str]:
    """Event column -> file column: as mapped, else of the same name where the file has it."""
    chosen = {name: name for name in COLUMNS if name in columns}
    mapped = dict(options.columns)
    for name, wanted in mapped.items():
        if name not in COLUMNS:
            raise UsageError(
                f"--map {name}=...: no such event column", remedy=f"Columns: {', '.join(COLUMNS)}."
            )
        if wanted not in columns and wanted.isdigit() and 1 <= int(wanted) <= len(columns):
            wanted = columns[int(wanted) - 1]
        if wanted not in columns:
            raise UsageError(
                f"--map {name}={wanted}: the file has no such column",
                remedy=f"The file has: {', '.join(columns)}.",
            )
        explicit = mapped.keys() - {name}
        chosen = {other: column for other, column in chosen.items() if column != wanted or other in explicit}
        if wanted in chosen.values():
            raise UsageError(f"--map {name}={wanted}: that column is mapped twice")
        chosen[name] = wanted
    for name in REQUIRED:
        if name not in chosen:
            raise UsageError(
                f"no column for {name!r}",
                remedy=f"Say which with --map {name}=COLUMN. The file has: {', '.join(columns)}.",
            )
    return chosen
