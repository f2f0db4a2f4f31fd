"""Parameters of the lifelike company, each with its sentence."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, get_type_hints

from entente.errors import UsageError


@dataclass(frozen=True, slots=True)
class Life:
    """Rates are per working day, so that weekends and holidays see a tenth of them, unless said otherwise."""

    holidays: Annotated[float, "Probability that a site has a public holiday on a given day."] = 0.03
    absences: Annotated[float, "Probability per day that a worker falls ill or goes on leave."] = 0.012
    absence_days: Annotated[float, "Mean days of an absence (geometric)."] = 4.0
    ntlm: Annotated[float, "Share of pairs that use NTLM; nearly all others use Kerberos."] = 0.3

    shared_machines: Annotated[float, "Share of workstations that several people use in turn."] = 0.06
    shift_hours: Annotated[float, "Hours after which another person may sit at a shared machine."] = 4.0
    second_accounts: Annotated[float, "Share of workers with a privileged account for run-as."] = 0.06
    run_as: Annotated[float, "Share of these workers' contacts with servers made with that account."] = 0.2
    service_accounts: Annotated[float, "Share of a server's pairs that run under a service account."] = 0.4
    borrowed: Annotated[float, "Log-ons at a colleague's or another site's workstation, per 100 workers."] = (
        1.0
    )
    helpdesk: Annotated[float, "Admins who log on from a user's workstation, per 100 workers."] = 1.2

    admin_jobs: Annotated[float, "Jobs of an admin: repair, a round over servers or workstations."] = 1.2
    jobs_over_jump_host: Annotated[float, "Share of an admin's server jobs that go over a jump host."] = 0.5
    jobs_elsewhere: Annotated[float, "Share of an admin's jobs at another site."] = 0.15
    power_users: Annotated[float, "Share of workers who work on a server by remote desktop."] = 0.05
    pivots: Annotated[float, "Sittings of such a user, whose server then contacts one to four others."] = 0.7
    strange_pivots: Annotated[
        float, "Share of these servers and onward contacts that are not the user's usual ones."
    ] = 0.1

    scan_days: Annotated[float, "Days (of the week) in which the scanner gets round the whole company."] = 7.0
    patch_days: Annotated[float, "Days between two patch rounds; each comes in three rings over a week."] = (
        28.0
    )
    deployments: Annotated[
        float, "Pushes of software to a department or a part of a site, per calendar day."
    ] = 0.8
    inventory_days: Annotated[float, "Days between two inventories of all servers and part of the rest."] = (
        7.0
    )
    migrations: Annotated[float, "Servers replaced by others, per calendar day and 800 hosts."] = 0.2

    typos: Annotated[float, "Share of a worker's log-ons at a controller that fail once or twice first."] = (
        0.012
    )
    expired: Annotated[float, "Probability that a worker's password has expired, per day."] = 0.011
    wrong_links: Annotated[
        float, "Refused attempts at a server that is none of one's own, per 100 workers."
    ] = 1.5
    storms: Annotated[
        float, "Services that retry an old password for hours, per calendar day and 800 hosts."
    ] = 0.8
    unreachable: Annotated[float, "Share of scanned or patched hosts that refuse."] = 0.08

    leases: Annotated[float, "Share of workstations that get another address each day (DHCP)."] = 0.08

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            longest = field.name.endswith(("_days", "_hours"))
            if value < 0 or (longest and value < 0.1):
                raise UsageError(f"{field.name} = {value:g} makes no sense", remedy=sentence(field.name))
        for name in SHARES:
            if getattr(self, name) > 1:
                raise UsageError(f"{name} is at most 1", remedy=sentence(name))

    def scaled(self, factor: float) -> Life:
        """With so much more or less one-off work."""
        return replace(self, **{name: factor * getattr(self, name) for name in ONE_OFFS})


ONE_OFFS = (
    "borrowed", "helpdesk", "admin_jobs", "pivots", "deployments", "migrations", "wrong_links", "storms",
)  # fmt: skip
SHARES = (
    "holidays", "absences", "ntlm", "shared_machines", "second_accounts", "run_as", "service_accounts",
    "jobs_over_jump_host", "jobs_elsewhere", "power_users", "strange_pivots", "typos", "expired",
    "unreachable", "leases",
)  # fmt: skip


def sentence(name: str) -> str:
    """What a parameter means."""
    found: str = get_type_hints(Life, include_extras=True)[name].__metadata__[0]
    return found


def parse_life(settings: list[str]) -> Life:
    """NAME=VALUE, as the command line has them."""
    known = {field.name for field in fields(Life)}
    values: dict[str, float] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in known:
            raise UsageError(
                f"{name!r} is no parameter of the company", remedy="Known: " + ", ".join(sorted(known))
            )
        try:
            values[name] = float(value)
        except ValueError as error:
            raise UsageError(f"{setting!r} gives {name} no number", remedy=sentence(name)) from error
    return Life(**values)
