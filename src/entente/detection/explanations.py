"""Why an edge is an alert, in sentences that can be checked against the logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from entente.detection.history import Novelty

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

NAMELESS = ("", "all")
"""Names of the only silo of a run that has but one: "the logs" says more than "all's logs"."""

BURST = 3
"""So many new targets of one source in one window count as a burst."""

LATERAL, EXECUTION = ("TA0008", "Lateral Movement"), ("TA0002", "Execution")
TECHNIQUES = {
    "T1021": ("Remote Services", LATERAL),
    "T1021.001": ("Remote Desktop Protocol", LATERAL),
    "T1021.002": ("SMB/Windows Admin Shares", LATERAL),
    "T1021.003": ("Distributed Component Object Model", LATERAL),
    "T1021.004": ("SSH", LATERAL),
    "T1021.006": ("Windows Remote Management", LATERAL),
    "T1047": ("Windows Management Instrumentation", EXECUTION),
    "T1550": ("Use Alternate Authentication Material", LATERAL),
    "T1550.002": ("Pass the Hash", LATERAL),
}
"""Name and tactic of every ATT&CK technique that an alert may hint at, and of its parent."""
TECHNIQUE_BY_PORT = {
    22: "T1021.004",
    135: "T1021.003",
    139: "T1021.002",
    445: "T1021.002",
    3389: "T1021.001",
    5985: "T1021.006",
    5986: "T1021.006",
}
TECHNIQUE_BY_LOGON = {"RemoteInteractive": "T1021.001", "Network": "T1021", "NetworkCleartext": "T1021"}
TECHNIQUE_BY_WORD = {
    "rdp": "T1021.001",
    "smb": "T1021.002",
    "wmi": "T1047",
    "dce_rpc": "T1021.003",
    "winrm": "T1021.006",
    "ssh": "T1021.004",
    "ntlm": "T1550.002",
}


@dataclass(frozen=True, slots=True)
class SiloView:
    """Whose logs an explanation is about: reasons are counted in one silo's logs and say so."""

    silo: str
    owns_source: bool = True
    owns_target: bool = True

    @property
    def logs(self) -> str:
        return "the logs" if self.silo in NAMELESS else f"{self.silo}'s logs"

    @property
    def targets(self) -> str:
        """What this silo sees of a source's targets: of a foreign source only those that are its own."""
        return "hosts" if self.owns_source else f"hosts of {self.silo}"


def explain(src: str, dst: str, novelty: Novelty, days: float, view: SiloView) -> tuple[str, ...]:
    """Sentences a human can check against the logs of one silo, the strongest first."""
    reasons = []
    if novelty.pair_windows:
        times = "1 earlier window" if novelty.pair_windows == 1 else f"{novelty.pair_windows} earlier windows"
        reasons.append(f"{src} has contacted {dst} before, in {times} of {view.logs}")
    elif days > 0:
        reasons.append(f"first contact from {src} to {dst} in {days:.1f} days of {view.logs}")
    else:
        reasons.append(f"{src} contacts {dst}; {view.logs} have nothing earlier to compare with")
    if novelty.new_border and view.owns_source:
        reasons.append(f"first time {src} reaches a host outside {view.silo} in {view.logs}")
    elif novelty.new_border:
        reasons.append(f"first time {src}, not a host of {view.silo}, reaches into {view.silo}")
    usual, now = novelty.targets_usual, novelty.targets_now
    if usual is None:
        reasons.append(f"{src} was never a source before in {view.logs}")
    elif now > max(2.0, 2 * usual) or (novelty.new_targets_now >= BURST and now > usual):
        new = novelty.new_targets_now
        reasons.append(
            f"{src} contacts {now} {view.targets} in this window, {new} of them new in {view.logs}; "
            f"usually {usual:g}"
        )
    if not novelty.sources_before:
        nobody = "nobody" if view.owns_target else f"no host of {view.silo}"
        reasons.append(f"{nobody} contacted {dst} before in {view.logs}")
    elif novelty.sources_before <= BURST and not novelty.pair_windows:
        others = "1 other host" if novelty.sources_before == 1 else f"{novelty.sources_before} other hosts"
        reasons.append(f"only {others} contacted {dst} before in {view.logs}")
    return tuple(reasons)


def severity(novelty: Novelty, days: float) -> Severity:
    """From what can be checked, not from the score, whose scale differs between detectors.

    low: a known pair; medium: a new pair; high: a new pair that also crosses the silo's border for the
    first time or is part of a burst of new targets; critical: all three. Without any day of history
    everything is new: medium.
    """
    if novelty.pair_windows:
        return "low"
    if days <= 0:
        return "medium"
    grounds = int(novelty.new_border) + int(novelty.new_targets_now >= BURST)
    levels: tuple[Severity, ...] = ("medium", "high", "critical")
    return levels[grounds]


def technique_hint(
    kinds: Sequence[str] = (), ports: Sequence[int] = (), logons: Sequence[str] = ()
) -> tuple[str, str] | None:
    """ATT&CK technique that a port, a logon type or the log's own words suggest, and why; else None."""
    for port in ports:
        if port in TECHNIQUE_BY_PORT:
            return TECHNIQUE_BY_PORT[port], f"port {port}"
    for logon in logons:
        if logon in TECHNIQUE_BY_LOGON:
            return TECHNIQUE_BY_LOGON[logon], f"logon type {logon}"
    for kind in kinds:
        for word, technique in TECHNIQUE_BY_WORD.items():
            if word in kind.lower():
                return technique, f"the log says {kind}"
    return None
