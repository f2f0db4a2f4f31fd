"""Text -> numbers, times and names, as Ibis expressions that every engine evaluates alike.

Engines differ in what they accept as a number or a time ("12.7" as 13, " 7", "1e3"), so nothing here
relies on a cast's own idea of validity: text is checked first, and what does not fit becomes null.
"""

from __future__ import annotations

from entente.logs.formats.base import Column, Table

ISO = (
    r"^[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]{1,9})?"
    r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?$"
)
DECIMAL = {"s": "[0-9]{1,11}", "ms": "[0-9]{1,14}"}
PLACES = {"s": 6, "ms": 3}
LOGON_TYPES = {
    "2": "Interactive",
    "3": "Network",
    "4": "Batch",
    "5": "Service",
    "7": "Unlock",
    "8": "NetworkCleartext",
    "9": "NewCredentials",
    "10": "RemoteInteractive",
    "11": "CachedInteractive",
}
"""Windows's logon types, as event 4624 numbers them and as LANL names them."""


def null(kind: str = "string") -> Column:
    import ibis

    return ibis.null(kind)


def text(column: Column, *unset: str) -> Column:
    """Without blanks around it; null where it is empty or one of `unset`."""
    bare = stripped(column)
    return only(bare, ~bare.isin(["", *unset]))


def stripped(column: Column) -> Column:
    """Without blanks around it. Looking for them takes a quarter of the time of cutting them off."""
    import ibis

    return ibis.ifelse((column < "!") | (column.right(1) < "!"), column.strip(), column)


def only(value: Column, where: Column) -> Column:
    """`value` where the condition holds, else null."""
    import ibis

    return ibis.ifelse(where, value, null(str(value.type())))


def replaced(column: Column, where: Column, pattern: str, by: str) -> Column:
    """What fits the pattern replaced, where the condition, cheaper to test, says that it may occur."""
    import ibis

    return ibis.ifelse(where, column.re_replace(pattern, by), column)


def first_of(*columns: Column) -> Column:
    import ibis

    return columns[0] if len(columns) == 1 else ibis.coalesce(*columns)


def either(raw: Table, *names: str) -> Column:
    """The first of these columns that the file has; null when it has none."""
    present = [raw[name] for name in names if name in raw.columns]
    return first_of(*present) if present else null()


def whole(column: Column, kind: str = "int64") -> Column:
    """A whole number written plainly, else null."""
    number = column.try_cast("int64")
    plain = only(number, number.cast("string") == column)
    return plain if kind == "int64" else only(plain, plain.between(-(2**31), 2**31 - 1)).cast(kind)


def port(column: Column) -> Column:
    """A port number, else null (ICMP types, hexadecimal, nothing)."""
    number = whole(column)
    return only(number, number.between(0, 65535)).cast("int32")


def epoch(column: Column, unit: str = "s") -> Column:
    """Seconds (or ms, us, ns) since 1970, possibly with decimals -> microseconds."""
    import ibis

    if unit == "ns":
        # The last digits go as text: DuckDB's `//` divides doubles, which have no room for nanoseconds.
        number = only(column, whole(column).notnull())
        return ibis.coalesce(
            number.re_extract("^(-?[0-9]+)[0-9]{3}$", 1).try_cast("int64"), number.length() * 0
        )
    if unit == "us":
        return whole(column)
    places, integer = PLACES[unit], DECIMAL[unit]
    number = only(column, column.re_search(rf"^-?{integer}([.][0-9]{{1,18}})?$"))
    units = number.re_extract(f"^-?({integer})", 1).try_cast("int64")
    decimals = ibis.coalesce(number.re_extract("[.]([0-9]+)$", 1), "") + "0" * (places + 1)
    parts = _scaled(units, decimals, places)
    return ibis.ifelse(number.startswith("-"), -parts, parts)


def _by_length(rows: Table) -> Table:
    """`rows` with `_number`: `_text` since 1970 in microseconds, by the digits before its point.

    Up to 11 are seconds (until the year 5138), 14 ms, 17 us, 19 ns.
    """
    import ibis

    rows = rows.mutate(_plain=only(rows._text, rows._text.re_search("^-?[0-9]{1,19}([.][0-9]{1,18})?$")))
    rows = rows.mutate(
        _integer=rows._plain.re_extract("^-?([0-9]+)", 1),
        _decimals=ibis.coalesce(rows._plain.re_extract("[.]([0-9]+)$", 1), "") + "0000000",
    )
    rows = rows.mutate(_places=rows._integer.length(), _units=rows._integer.try_cast("int64"))
    places, units = rows._places, rows._units
    parts = ibis.cases(
        (places <= 11, _scaled(only(units, places <= 11), rows._decimals, 6)),
        (places <= 14, _scaled(only(units, places <= 14), rows._decimals, 3)),
        (places <= 17, units),
        else_=rows._integer.re_extract("^([0-9]+)[0-9]{3}$", 1).try_cast("int64"),
    )
    rows = rows.mutate(_parts=parts)
    return rows.mutate(_number=ibis.ifelse(rows._plain.startswith("-"), -rows._parts, rows._parts))


def _scaled(units: Column, decimals: Column, places: int) -> Column:
    """Units and their decimals, in whole numbers because a double loses microseconds; rounded at the end."""
    return units * 10**places + (decimals.substr(0, places + 1).try_cast("int64") + 5) // 10


def with_time(rows: Table, column: Column, unit: str | None = None) -> Table:
    """`rows` with two more columns: `time` in microseconds, and `local`, true where no zone was given.

    `column` is an ISO 8601 time or alike; with a `unit` it may also be a number since 1970, of a unit that
    its length tells where that is auto. Built in steps, each a projection over the one before, because an
    engine evaluates an expression as often as it is written down.
    """
    import ibis

    rows = rows.mutate(_text=column)
    rows = rows.mutate(_iso=only(rows._text, rows._text.re_search(ISO)))
    value = rows._iso
    parts = {
        "year": (0, 4),
        "month": (5, 2),
        "day": (8, 2),
        "hour": (11, 2),
        "minute": (14, 2),
        "second": (17, 2),
    }
    rows = rows.mutate(
        **{
            f"_{name}": value.substr(start, length).try_cast("int64")
            for name, (start, length) in parts.items()
        },
        # From the beginning on: what is looked for anywhere takes twice the time.
        _digits=ibis.coalesce(value.substr(19).re_extract("^[.,]([0-9]{1,9})", 1), "") + "000000",
        _zone=ibis.coalesce(
            value.substr(19).re_extract("^[.,]?[0-9]* ?([+-][0-9]{2}:?[0-9]{2})$", 1), ""
        ).replace(":", ""),
    )
    year, month, zone = rows._year, rows._month, rows._zone
    minutes = zone.substr(1, 2).try_cast("int64") * 60 + zone.substr(3, 2).try_cast("int64")
    rows = rows.mutate(
        _length=ibis.cases(
            ((month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)), 29),
            (month == 2, 28),
            (month.isin([4, 6, 9, 11]), 30),
            else_=31,
        ),
        # Years begin in March, so that the leap day is the last of its year.
        _march=ibis.ifelse(month <= 2, year - 1, year),
        _of_year=(153 * ibis.ifelse(month > 2, month - 3, month + 9) + 2) // 5 + rows._day - 1,
        _fraction=rows._digits.substr(0, 6).try_cast("int64"),
        _offset=ibis.cases((zone == "", 0), (zone.startswith("-"), -minutes), else_=minutes),
        local=rows._iso.notnull() & (zone == "") & ~rows._iso.endswith("Z") & ~rows._iso.endswith("UTC"),
    )
    march = rows._march
    # Days since 1970 in the Gregorian calendar, extended to all years.
    rows = rows.mutate(
        _days=march * 365 + march // 4 - march // 100 + march // 400 + rows._of_year - 719_468,
        _sane=rows._month.between(1, 12)
        & (rows._day >= 1)
        & (rows._day <= rows._length)
        & (rows._hour < 24)
        & (rows._minute < 60)
        & (rows._second <= 60),
    )
    clock = rows._hour * 3_600 + rows._minute * 60 + rows._second - rows._offset * 60
    micros = only((rows._days * 86_400 + clock) * 1_000_000 + rows._fraction, rows._sane)
    rows = rows.mutate(_moment=micros)
    if unit is None:
        return rows.mutate(time=rows._moment)
    rows = _by_length(rows) if unit == "auto" else rows.mutate(_number=epoch(rows._text, unit))
    return rows.mutate(time=first_of(rows._number, rows._moment))


def label(column: Column) -> Column:
    """Words and numbers for malicious and benign -> 1, 0 or null."""
    import ibis

    word = stripped(column).lower()
    return ibis.cases(
        (word.isin(["1", "true", "malicious", "attack", "pivoting", "yes"]), 1),
        (word.isin(["0", "false", "benign", "normal", "background", "no"]), 0),
        else_=null("int8"),
    ).cast("int8")


def outcome(column: Column) -> Column:
    """Words for success and failure -> true, false or null."""
    import ibis

    word = stripped(column).lower()
    return ibis.cases(
        (word.isin(["1", "true", "t", "success", "succeeded", "ok", "yes", "accept", "allowed"]), True),
        (word.isin(["0", "false", "f", "failure", "fail", "failed", "no", "reject", "denied"]), False),
        else_=null("boolean"),
    )


def logon(column: Column) -> Column:
    """Windows's number of a logon type -> its name; another text stays as it is."""
    return column.cases(*LOGON_TYPES.items(), else_=column)


def added(*columns: Column) -> Column:
    """Their sum, a null counting as 0, null when all are."""
    import ibis

    total = columns[0].fill_null(0)
    for column in columns[1:]:
        total = total + column.fill_null(0)
    return only(total, ibis.coalesce(*columns).notnull())
