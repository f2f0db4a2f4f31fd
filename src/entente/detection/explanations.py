"""Why an edge is an alert, in sentences that can be checked against the logs."""

from __future__ import annotations

from typing import Literal, get_args

from entente.detection.history import Novelty

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

BURST = 3
"""So many new targets of one source in one window count as a burst."""

TECHNIQUE_BY_PORT = {
    22: "T1021.004",
    135: "T1021.003",
    139: "T1021.002",
    445: "T1021.002",
    3389: "T1021.001",
    5985: "T1021.006",
    5986: "T1021.006",
}
TECHNIQUE_BY_WORD = {
    "rdp": "T1021.001",
    "smb": "T1021.002",
    "wmi": "T1047",
    "winrm": "T1021.006",
    "ssh": "T1021.004",
    "ntlm": "T1550.002",
}


def explain(src: str, dst: str, novelty: Novelty, days: float, silo: str | None = None) -> tuple[str, ...]:
    """Sentences a human can check against the logs, the strongest first."""
    reasons = []
    if novelty.pair_windows:
        times = "1 earlier window" if novelty.pair_windows == 1 else f"{novelty.pair_windows} earlier windows"
        reasons.append(f"{src} has contacted {dst} before, in {times}")
    elif days > 0:
        reasons.append(f"first contact from {src} to {dst} in {days:.1f} days of logs")
    else:
        reasons.append(f"{src} contacts {dst}; no earlier logs to compare with")
    if novelty.new_silo:
        reasons.append(f"first time {src} reaches into {silo}")
    usual, now = novelty.targets_usual, novelty.targets_now
    if usual is None:
        reasons.append(f"{src} was never a source before")
    elif now > max(2.0, 2 * usual) or (novelty.new_targets_now >= BURST and now > usual):
        new = novelty.new_targets_now
        reasons.append(f"{src} contacts {now} hosts in this window, {new} of them new; usually {usual:g}")
    if not novelty.sources_before:
        reasons.append(f"nobody contacted {dst} before")
    elif novelty.sources_before <= BURST and not novelty.pair_windows:
        others = "1 other host" if novelty.sources_before == 1 else f"{novelty.sources_before} other hosts"
        reasons.append(f"only {others} ever contacted {dst}")
    return tuple(reasons)


def severity(novelty: Novelty, days: float) -> Severity:
    """From what can be checked, not from the score, whose scale differs between detectors.

    low: a known pair; medium: a new pair; high: a new pair that also enters a new silo or is part of a
    burst of new targets; critical: all three. Without any day of history everything is new: medium.
    """
    if novelty.pair_windows:
        return "low"
    if days <= 0:
        return "medium"
    grounds = int(novelty.new_silo) + int(novelty.new_targets_now >= BURST)
    levels: tuple[Severity, ...] = ("medium", "high", "critical")
    return levels[grounds]


def technique_hint(kind: str | None, port: str | None) -> str | None:
    """ATT&CK technique that the port or the log's own words suggest; None when nothing does."""
    if port is not None and port.isdigit() and int(port) in TECHNIQUE_BY_PORT:
        return TECHNIQUE_BY_PORT[int(port)]
    if kind is None:
        return None
    return next((technique for word, technique in TECHNIQUE_BY_WORD.items() if word in kind.lower()), None)
