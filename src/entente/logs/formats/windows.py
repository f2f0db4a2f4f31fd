"""Windows security events of logons, as JSON lines of several collectors, or straight from .evtx."""

from __future__ import annotations

from entente.logs.formats.base import Column, Event, Format, Head, JsonLines, Options, Table
from entente.logs.formats.expressions import first_of, logon, null, only, port, replaced, text, with_time

LOGONS = ("4624", "4625", "4648", "4768", "4769", "4771", "4776")
DATA: dict[str, tuple[tuple[str, ...], ...]] = {
    "IpAddress": (("Source_Network_Address",), ("Client_Address",), ("source", "ip")),
    "WorkstationName": (("Workstation_Name",),),
    "Workstation": (("Source_Workstation",),),
    "TargetServerName": (("Target_Server_Name",),),
    "TargetUserName": (),
    "AuthenticationPackageName": (("Authentication_Package",),),
    "LogonType": (("Logon_Type",),),
    "Status": (("Result_Code",), ("Failure_Code",), ("Error_Code",)),
    "SourceIp": (), "SourcePort": (), "DestinationIp": (), "DestinationPort": (), "Initiated": (),
    "Protocol": (), "User": (), "CommandLine": (),
}  # fmt: skip
"""Field of an event's data -> where else it may stand, in Splunk's and Winlogbeat's words."""
PLACES: dict[str, tuple[tuple[str, ...], ...]] = {
    "id": (("EventID",), ("EventId",), ("EventCode",), ("winlog", "event_id"), ("event", "code"),
           ("Event", "System", "EventID", "#text"), ("Event", "System", "EventID"), ("event_id",)),
    "utc": (("Event", "System", "TimeCreated", "#attributes", "SystemTime"), ("SystemTime",), ("UtcTime",),
            ("TimeCreated",), ("TimeGenerated",), ("@timestamp",), ("_time",)),
    "clock": (("EventTime",),),
    "computer": (("Hostname",), ("Computer",), ("ComputerName",), ("MachineName",),
                 ("winlog", "computer_name"), ("Event", "System", "Computer"), ("computer_name",),
                 ("host", "name")),
    "channel": (("Channel",), ("winlog", "channel"), ("Event", "System", "Channel"), ("LogName",),
                ("SourceName",), ("EventLog",), ("log_name",)),
}  # fmt: skip
"""Value -> where NXLog, Winlogbeat, evtx_dump, Splunk and Sentinel put it, the first that is there counts."""
REMOTE = (
    r"(?:(?:^|[\s\"'=(,])\\\\|/node:|-computername\s+|-cn\s+|schtasks[^|&]*\s/s\s+|winrs[^|&]*\s-r:|mstsc[^|&]*\s/v:)"
    r"[\"']?([a-z0-9][a-z0-9._-]*)"
)
"""A host that a command reaches for: a share, wmic /node:, -ComputerName, schtasks /s, winrs -r:, mstsc."""
NOWHERE = ("-", "", "localhost", "::1", "127.0.0.1", "0.0.0.0", "::")  # noqa: S104 - addresses in logs, none is bound # nosec B104


class Windows(Format):
    name = "windows"
    summary = (
        "Windows logons 4624 4625 4648 4768 4769 4771 4776, Sysmon 1 and 3: JSON of any collector, .evtx"
    )
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
    short_names = True

    def recognise(self, head: Head) -> str | None:
        for found in head.objects:
            winlog, event = found.get("winlog"), found.get("Event")
            if isinstance(winlog, dict) and "event_id" in winlog:
                return "JSON with winlog.event_id, as Winlogbeat writes"
            if isinstance(event, dict) and "System" in event:
                return "JSON with Event.System, as evtx files hold"
            named = {"Hostname", "Computer", "ComputerName", "MachineName", "Channel"}
            if found.keys() & {"EventID", "EventId", "EventCode"} and found.keys() & named:
                return "JSON with EventID and Hostname or Channel"
        return None

    def layout(self, head: Head, options: Options) -> JsonLines:
        # A collector writes all rows alike: what none of the first has is not looked for in every row.
        absent = {"winlog", "Event", "event", "source", "host"} - {
            key for found in head.objects for key in found
        }
        return JsonLines(
            {
                f"{name}{i}": path
                for name, places in _places()
                for i, path in enumerate(places)
                if path[0] not in absent or not head.objects
            }
        )

    def event(self, raw: Table, options: Options) -> Event:
        import ibis

        rows = raw.select(
            **{
                name: first_of(
                    *(text(raw[f"{name}{i}"]) for i in range(len(places)) if f"{name}{i}" in raw.columns)
                )
                for name, places in _places()
            }
        )
        moment = first_of(rows.utc, rows.clock)
        # PowerShell writes /Date(1596729374123)/.
        moment = first_of(moment.re_extract(r"^/Date[(]([0-9]+)", 1).nullif(""), moment)
        rows = rows.mutate(moment=moment)
        # Up to 26 characters are an ISO time of at most six decimals.
        longer = (rows.moment.length() > 26) | ~rows.moment.contains("T")
        rows = with_time(rows, replaced(rows.moment, longer, r"([.][0-9]{6})[0-9]+", r"\1"), "auto")
        # New names differ from old ones in more than case: to SQL engines Workstation is workstation.
        rows = rows.mutate(
            address=_address(rows.IpAddress),
            from_name=_host(first_of(rows.WorkstationName, rows.Workstation)),
            target=_host(rows.TargetServerName),
            host=_host(rows.computer),
            near=_address(rows.SourceIp),
            far=_address(rows.DestinationIp),
            reached=_host(rows.CommandLine.lower().re_extract(REMOTE, 1).nullif("")),
            sysmon=rows.channel.fill_null("").contains("Sysmon"),
            began=rows.Initiated.lower().isin(["true", "1"]).fill_null(True),
        )
        rows = rows.mutate(
            connection=rows.sysmon & (rows.id == "3"),
            process=rows.sysmon & (rows.id == "1"),
            explicit=~rows.sysmon & (rows.id == "4648"),
            listed=~rows.sysmon & rows.id.isin(LOGONS),
            # Of UDP that came from elsewhere Sysmon calls its own side the source.
            turned=~rows.began & (rows.Protocol.lower() == "udp").fill_null(False),
        )
        kerberos = rows.id.isin(["4768", "4769", "4771"])
        rows = rows.mutate(
            # The end of a connection that Sysmon sits on is the computer, whatever its address was.
            src=ibis.cases(
                (rows.connection & rows.began, rows.host),
                (rows.connection, ibis.ifelse(rows.turned, rows.far, rows.near)),
                (rows.explicit | rows.process, rows.host),
                (kerberos, rows.address),
                else_=first_of(rows.from_name, rows.address),
            ),
            dst=ibis.cases(
                (rows.connection, ibis.ifelse(rows.began, rows.far, rows.host)),
                (rows.explicit, rows.target),
                (rows.process, rows.reached),
                else_=rows.host,
            ),
            other=rows.id.notnull() & ~(rows.listed | rows.connection | rows.process),
            ntlm=(rows.id == "4776") | rows.AuthenticationPackageName.fill_null("").contains("NTLM"),
            # Tickets name the realm too, logons do not.
            account=replaced(text(rows.TargetUserName, "-"), rows.TargetUserName.contains("@"), "@.*$", ""),
        )
        return Event(
            rows=rows,
            time=rows.time,
            src=rows.src,
            dst=rows.dst,
            user=ibis.ifelse(rows.sysmon, rows.User.re_extract(r"([^\\]+)$", 1), rows.account).lower(),
            kind=ibis.ifelse(rows.sysmon, "sysmon-" + rows.id, rows.id),
            logon=logon(text(rows.LogonType, "-")),
            port=only(port(ibis.ifelse(rows.turned, rows.SourcePort, rows.DestinationPort)), rows.connection),
            outcome=_outcome(rows),
            filtered=_filtered(rows, options),
            bad=only(ibis.literal("no event id"), rows.id.isnull()),
            # Only NXLog's EventTime is the clock on the wall; the others are UTC, said or not.
            local=rows.local & rows.utc.isnull(),
        )


def _places() -> list[tuple[str, tuple[tuple[str, ...], ...]]]:
    """(value, the paths at which it may be found, the first that is there counts)."""
    data = [
        (name, ((name,), ("winlog", "event_data", name), ("Event", "EventData", name), *others))
        for name, others in DATA.items()
    ]
    return [*PLACES.items(), *data]


def _outcome(rows: Table) -> Column:
    """By the event id, else by the status of a ticket or validation; 4648 tells only of an attempt."""
    import ibis

    judged = rows.id.isin(["4768", "4769", "4776"]) & rows.Status.notnull()
    return ibis.cases(
        (rows.sysmon, null("boolean")),
        (rows.id == "4624", True),
        (rows.id.isin(["4625", "4771"]), False),
        (judged, rows.Status.lower().isin(["0x0", "0"])),
        else_=null("boolean"),
    )


def _filtered(rows: Table, options: Options) -> Column:
    import ibis

    here = rows.IpAddress.isin(["::1", "127.0.0.1"])
    within = rows.connection & (rows.near.isnull() | rows.far.isnull() | (rows.near == rows.far))
    reasons = [
        (rows.other, "another event id"),
        (rows.id.isnull() | rows.host.isnull(), null()),
        (within, "connection of the host with itself"),
        (rows.process & rows.dst.isnull(), "process that names no other host"),
        (rows.explicit & rows.dst.isnull(), "credentials used on the host itself"),
        (rows.src.isnull() & here, "logon from the host itself"),
        (rows.src.isnull(), "logon without a remote source"),
    ]
    if options.ntlm:
        reasons.insert(1, (~rows.ntlm, "not NTLM"))
    return ibis.cases(*reasons, else_=null())


def _address(column: Column) -> Column:
    """An IPv4 address instead of its IPv6-mapped form, without the interface; null if it names no host."""
    bare = replaced(column.lower(), column.startswith("::"), "^::ffff:", "")
    bare = replaced(bare, column.contains("%"), "%.*$", "")
    return only(bare, ~bare.isin(NOWHERE))


def _host(column: Column) -> Column:
    """Lower case, without leading backslashes; null if it names no host."""
    bare = replaced(column.lower(), column.startswith("\\"), r"^\\+", "")
    return only(replaced(bare, bare.startswith("::"), "^::ffff:", ""), ~bare.isin(NOWHERE))
