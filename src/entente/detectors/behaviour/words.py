"""Why an edge scores high, in words: the families of features that raise its logit most."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from entente.detectors.behaviour.features import FEATURES, NAMES, scaled
from entente.detectors.behaviour.network import Forward
from entente.graphs.temporal import Float32
from entente.text import hours_text

FAMILIES = tuple(dict.fromkeys(feature.family for feature in FEATURES))
SAID = 3
"""Most reasons in one sentence."""

Raw = Mapping[str, float]


def reasons(forward: Forward, raw: Float32, minutes: float, story: str) -> str:
    """One sentence on one edge; `raw` are its values, `story` is why its source is suspicious."""
    given = scaled(raw[None])
    without = np.repeat(given, len(FAMILIES), axis=0)
    for row, family in enumerate(FAMILIES):
        without[row, [feature.family == family for feature in FEATURES]] = 0.0
    gain = forward(given)[0] - forward(without)
    values = dict(zip(NAMES, raw.astype(float).tolist(), strict=True))
    said: list[str] = []
    for row in np.argsort(-gain, kind="stable").tolist():
        text = WORDS[FAMILIES[row]](values, minutes) if gain[row] > 0 else ""
        if text and len(said) < SAID:
            said.append(text)
    return "; ".join([*said, story] if story else said)


def _pair(raw: Raw, minutes: float) -> str:
    if raw["new"]:
        return "first contact of this pair"
    return f"pair first seen {hours_text(raw['pair_age'])} ago" if raw["pair_age"] < 48 else ""


def _target(raw: Raw, minutes: float) -> str:
    if raw["b_unknown"]:
        return "the target was not seen before, within 30 days"
    count = round(raw["b_sources"])
    if count == 0:
        return "nobody contacted the target before"
    return f"only {_count(count, 'host')} contacted the target before" if count <= 10 else ""


def _source(raw: Raw, minutes: float) -> str:
    if raw["a_unknown"]:
        return "the source was not seen before, within 30 days"
    if raw["a_targets"] == 0:
        return "the source never contacted anyone before"
    return f"the source usually keeps to {_count(round(raw['a_old']), 'target')}" if raw["a_old"] < 10 else ""


def _burst(raw: Raw, minutes: float) -> str:
    count = round(raw["new_now"])
    if count < 1:
        return ""
    return f"{_count(count, 'new target')} in {minutes:g} minutes, usually {raw['usual']:.2g}"


def _onset(raw: Raw, minutes: float) -> str:
    if raw["fresh_new"] < 3 or raw["new_24"] < 2:
        return ""
    number, times = _count(round(raw["new_24"]), "new target"), round(raw["fresh_new"])
    return f"{number} within a day, {times} times as many as on the days before"


def _peers(raw: Raw, minutes: float) -> str:
    if raw["others_day"] < 0.05 and raw["evidence_24"] >= 1:
        return "no other host has turned to as many new and rare targets within a day"
    if raw["others_burst"] < 0.2 and raw["new_now"] >= 3:
        return f"no other host has {_count(round(raw['new_now']), 'new target')} in {minutes:g} minutes"
    return "hosts of its kind seldom reach so far" if raw["peers_day"] < 0.005 else ""


def _evidence(raw: Raw, minutes: float) -> str:
    if raw["relative"] < 2:
        return ""
    return f"{raw['relative']:.0f} times its usual number of new and rare targets within a day"


def _pivot(raw: Raw, minutes: float) -> str:
    if raw["rest_in"] < 72:
        return f"the source was itself contacted by a new host {hours_text(raw['rest_in'])} ago"
    return "other new edges lead to the target" if raw["chain_b"] > 0.5 else ""


def _class(raw: Raw, minutes: float) -> str:
    return "hosts like the source hardly ever turn to hosts like the target" if raw["odd"] > 2 else ""


def _habit(raw: Raw, minutes: float) -> str:
    return "at an hour at which the source is usually quiet" if raw["hour_a"] < 0.5 else ""


def _silo(raw: Raw, minutes: float) -> str:
    return "while little else is new" if raw["others"] < 0.7 else ""


def _kin(raw: Raw, minutes: float) -> str:
    if raw["new_24"] < 3:
        return ""
    if max(raw["kin_out"], raw["kin_in"]) < 0.3:
        return "its latest targets have nothing in common"
    return "" if raw["kin_b"] else "the target does not belong to the source's other latest ones"


def _account(raw: Raw, minutes: float) -> str:
    if not raw["has_user"]:
        return ""
    if raw["u_unknown"]:
        return "the account was not used before, within 30 days"
    if raw["u_new"]:
        return "the account was never used on the source before"
    if raw["u_share"] < 0.1:
        return f"the account is mostly used elsewhere, on {_count(round(raw['u_hosts']), 'host')}"
    return ""


def _outcome(raw: Raw, minutes: float) -> str:
    if raw["has_outcome"] and raw["failed"] >= 1:
        return f"{_count(round(raw['failed']), 'attempt')} failed"
    if raw["has_logon"] and raw["logon_odd"] > 3:
        return "a kind of log-on that the source hardly ever uses"
    return ""


WORDS: Mapping[str, Callable[[Raw, float], str]] = {
    "pair": _pair,
    "target": _target,
    "source": _source,
    "burst": _burst,
    "onset": _onset,
    "peers": _peers,
    "evidence": _evidence,
    "pivot": _pivot,
    "class": _class,
    "habit": _habit,
    "silo": _silo,
    "kin": _kin,
    "account": _account,
    "outcome": _outcome,
}


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
