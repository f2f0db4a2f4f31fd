"""Windows security events of logons, as JSON lines of several collectors, or straight from .evtx."""

from __future__ import annotations

from entente.logs.formats.base import Column, Event, Format, Head, JsonLines, Options, Table
from entente.logs.formats.expressions import first_of, logon, null, only, text, with_time

LOGONS = ("4624", "4625", "4648", "4768", "4769", "4776")
DATA = (
    "IpAddress", "WorkstationName", "Workstation", "TargetServerName", "TargetUserName",
    "AuthenticationPackageName", "LogonType", "Status",
)  # fmt: skip
PLACES: dict[str, tuple[tuple[str, ...], ...]] = {
    "id": (("EventID",), ("EventId",), ("winlog", "event_id"), ("Event", "System", "EventID", "#text"),
           ("Event", "System", "EventID"), ("event_id",)),
    "utc": (("Event", "System", "TimeCreated", "#attributes", "SystemTime"), ("SystemTime",), ("UtcTime",),
            ("TimeCreated",), ("@timestamp",)),
    "clock": (("EventTime",),),
    "computer": (("Hostname",), ("Computer",), ("winlog", "computer_name"), ("Event", "System", "Computer"),
                 ("computer_name",)),
}  # fmt: skip
"""Value -> where NXLog, Winlogbeat and evtx_dump put it, the first that is there counts."""
NOWHERE = ("-", "", "localhost", "::1", "127.0.0.1", "0.0.0.0", "::")  # noqa: S104 - addresses in logs, none is bound


class Windows(Format):
    name = "windows"
    summary = "Windows logons 4624 4625 4648 4768 4769 4776: JSON lines (NXLog, Winlogbeat, evtx_dump), .evtx"
    sample = (
        '{"EventID":4624,"@timestamp":"2020-08-06T15:56:12.198Z","Hostname":"DC.shire.local","Channel":"Security",'
        '"IpAddress":"::ffff:172.18.38.6","WorkstationName":"-","TargetUserName":"WEC$","LogonType":"3",'
        '"AuthenticationPackageName":"Kerberos"}\n'
        '{"winlog":{"event_id":4648,"computer_name":"WS5.shire.local","event_data":{"TargetServerName":"WS6",'
        '"TargetUserName":"frodo"}},"@timestamp":"2020-08-06T15:56:13.198Z"}\n'
        '{"Event":{"System":{"EventID":4776,"Computer":"DC.shire.local","TimeCreated":{"#attributes":{"SystemTime":'
        '"2020-08-06T15:56:14.000000Z"}}},"EventData":{"Workstation":"\\\\\\\\WS7","TargetUserName":"sam"}}}\n'
        '{"EventID":4624,"@timestamp":"2020-08-06T15:56:15.265Z","Hostname":"WS6.shire.local","Channel":"Security",'
        '"IpAddress":"-","WorkstationName":"-","TargetUserName":"SYSTEM","LogonType":"5"}\n'
        '{"EventID":1,"@timestamp":"2020-08-06T15:56:15.265Z","Hostname":"WS6.shire.local","Channel":"Sysmon"}\n'
    )
    ntlm = True

    def recognise(self, head: Head) -> str | None:
        for found in head.objects:
            winlog, event = found.get("winlog"), found.get("Event")
            if isinstance(winlog, dict) and "event_id" in winlog:
                return "JSON with winlog.event_id, as Winlogbeat writes"
            if isinstance(event, dict) and "System" in event:
                return "JSON with Event.System, as evtx files hold"
            if found.keys() & {"EventID", "EventId"} and found.keys() & {"Hostname", "Computer", "Channel"}:
                return "JSON with EventID and Hostname or Channel"
        return None

    def layout(self, head: Head, options: Options) -> JsonLines:
        paths = {f"{name}{i}": path for name, places in PLACES.items() for i, path in enumerate(places)}
        for name in DATA:
            paths |= {
                f"{name}0": (name,),
                f"{name}1": ("winlog", "event_data", name),
                f"{name}2": ("Event", "EventData", name),
            }
        return JsonLines(paths)

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        values = {name: [f"{name}{i}" for i in range(len(places))] for name, places in PLACES.items()}
        values |= {name: [f"{name}{i}" for i in range(3)] for name in DATA}
        rows = raw.select(
            **{name: first_of(*(text(raw[c]) for c in found)) for name, found in values.items()}
        )
        rows = with_time(rows, first_of(rows.utc, rows.clock).re_replace(r"([.][0-9]{6})[0-9]+", r"\1"))
        # New names differ from old ones in more than case: to SQL engines Workstation is workstation.
        rows = rows.mutate(
            address=_address(rows.IpAddress),
            from_name=_host(first_of(rows.WorkstationName, rows.Workstation)),
            target=_host(rows.TargetServerName),
            host=_host(rows.computer),
        )
        explicit = rows.id == "4648"
        kerberos = rows.id.isin(["4768", "4769"])
        rows = rows.mutate(
            src=ibis.cases(
                (explicit, rows.host),
                (kerberos, rows.address),
                else_=first_of(rows.from_name, rows.address),
            ),
            dst=ibis.ifelse(explicit, rows.target, rows.host),
            other=rows.id.notnull() & ~rows.id.isin(LOGONS),
            ntlm=(rows.id == "4776") | rows.AuthenticationPackageName.fill_null("").contains("NTLM"),
        )
        return Event(
            rows=rows,
            time=rows.time,
            src=rows.src,
            dst=rows.dst,
            user=text(rows.TargetUserName, "-"),
            kind=rows.id,
            logon=logon(text(rows.LogonType, "-")),
            outcome=_outcome(rows),
            filtered=_filtered(rows, options),
            bad=only(ibis.literal("no event id"), rows.id.isnull()),
            local=rows.local,
        )


def _outcome(rows: Table) -> Column:
    """By the event id, else by the status of a ticket or validation; 4648 tells only of an attempt."""
    import ibis

    judged = rows.id.isin(["4768", "4769", "4776"]) & rows.Status.notnull()
    return ibis.cases(
        (rows.id == "4624", True),
        (rows.id == "4625", False),
        (judged, rows.Status.lower().isin(["0x0", "0"])),
        else_=null("boolean"),
    )


def _filtered(rows: Table, options: Options) -> Column:
    import ibis

    here = rows.IpAddress.isin(["::1", "127.0.0.1"])
    reasons = [
        (rows.other, "another event id"),
        (rows.id.isnull() | rows.host.isnull(), null()),
        ((rows.id == "4648") & rows.dst.isnull(), "credentials used on the host itself"),
        (rows.src.isnull() & here, "logon from the host itself"),
        (rows.src.isnull(), "logon without a remote source"),
    ]
    if options.ntlm:
        reasons.insert(1, (~rows.ntlm, "not NTLM"))
    return ibis.cases(*reasons, else_=null())


def _address(column: Column) -> Column:
    """Without the IPv6 coat of an IPv4 address and without the interface; null when it is no place."""
    bare = column.lower().re_replace("^::ffff:", "").re_replace("%.*$", "")
    return only(bare, ~bare.isin(NOWHERE))


def _host(column: Column) -> Column:
    """Lower case, without leading backslashes and, unless it is an address, without the domain."""
    import ibis

    bare = column.lower().re_replace(r"^\\+", "")
    numeric = bare.contains(":") | bare.re_search("^[0-9.]+$")
    return only(ibis.ifelse(numeric, _address(bare), bare.re_replace("[.].*$", "")), ~bare.isin(NOWHERE))
