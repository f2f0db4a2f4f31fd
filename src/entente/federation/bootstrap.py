"""Before the first round: the total host count, and each silo's likeness to the reference graph."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from entente.config import Federation
from entente.federation.aggregators.base import Aggregator, SketchSettings
from entente.federation.messages import (
    CountReply,
    CountTask,
    KeyReply,
    KeyTask,
    Reply,
    SketchReply,
    SketchTask,
    Task,
)
from entente.federation.records import BootstrapRecord
from entente.federation.reply_check import ReplyCheck
from entente.privacy.secure_sum import FEWEST_SILOS, total

WITHHELD = "sent a key but no count, again and again"
SHARE_LIMIT = 10.0
"""FedAVG-N: a silo's share of the hosts is its own word; it counts up to this times the others' median."""


SIMILARITY_LIMIT = 3.0
"""J is a silo's own word too, and weighs its updates; it counts up to this times the others' median."""


class Bootstrap:
    """key -> count -> sketch -> done; only as far as the rule needs it."""

    def __init__(
        self, config: Federation, rule: Aggregator, silos: Sequence[str], quorum: int, seed: int
    ) -> None:
        self.config = config
        self.silos = silos
        self.seed = seed
        self._wants_similarity = rule.sketch is not None
        self._sketch = rule.sketch or SketchSettings()
        self._wants_share = rule.needs_share
        self._masked = config.secure_sum and len(silos) > 1
        self._quorum = quorum
        self._phase = "done"
        if self._wants_similarity or self._wants_share:
            self._phase = "key" if self._masked else "count"
        self._keys: dict[str, str] = {}
        self._proofs: dict[str, str] = {}
        self._hosts: int | None = None
        self._similarity: dict[str, float] = {}
        self._share: dict[str, float] = {}
        self._missing: dict[str, list[str]] = {}  # phase -> silos that it went on without
        self._voided: dict[str, int] = {}  # silo -> how often it sent a key and then no count
        self._cut: list[str] = []  # silos whose share was cut
        self._cut_similarity: list[str] = []

    @property
    def done(self) -> bool:
        return self._phase == "done"

    def similarity(self, silo: str) -> float:
        """J, in [0, 1]; 0 for a silo that never told it, 1 for all where the rule does not ask."""
        return self._similarity.get(silo, 0.0) if self._wants_similarity else 1.0

    def share(self, silo: str) -> float:
        return self._share.get(silo, 0.0) if self._wants_share else 1.0

    def task(self, task_id: int) -> Task:
        if self._phase == "key":
            return KeyTask(task_id)
        if self._phase == "count":
            return CountTask(task_id, keys=dict(self._keys), proofs=dict(self._proofs))
        return SketchTask(
            task_id,
            similarity=self._wants_similarity,
            share=self._wants_share,
            hosts=self._hosts or 1,
            m=self._sketch.m,
            seed=self.seed,
            labels=self._sketch.labels,
            iterations=self._sketch.iterations,
        )

    def conclude(self, replies: Sequence[Reply], check: ReplyCheck) -> str | None:
        """Go on to the next phase, or say why not; then the phase (or the whole sum) is to be repeated."""
        if self._phase == "key":
            return self._take_keys([r for r in replies if isinstance(r, KeyReply)], check)
        if self._phase == "count":
            return self._take_counts([r for r in replies if isinstance(r, CountReply)])
        return self._take_sketches([r for r in replies if isinstance(r, SketchReply)])

    def _take_keys(self, replies: Sequence[KeyReply], check: ReplyCheck) -> str | None:
        keys: dict[str, str] = {}
        proofs: dict[str, str] = {}
        for reply in replies:
            if reply.silo in self._left_out:
                check.refuse(reply.silo, WITHHELD)
            elif reply.key in keys.values():
                check.refuse(reply.silo, "public key of another silo")
            else:
                keys[reply.silo], proofs[reply.silo] = reply.key, reply.proof
        needed = fewest_keys(self._quorum, len(self.silos))
        if len(keys) < needed:
            return f"secure sum: {len(keys)} of {len(self.silos)} silos sent a key, {needed} are needed" + (
                f"; {', '.join(self._left_out)}: {WITHHELD}" if self._left_out else ""
            )
        self._keys, self._proofs, self._phase = keys, proofs, "count"
        return None

    def _take_counts(self, replies: Sequence[CountReply]) -> str | None:
        given = {r.silo: r.count for r in replies if not self._keys or r.silo in self._keys}
        if self._keys and (absent := sorted(set(self._keys) - set(given))):
            # Masks towards a silo that dropped out never cancel: new keys, without it if it stays away, and
            # after `retries` repeats without it even if it comes back.
            self._keys, self._proofs, self._phase = {}, {}, "key"
            for name in absent:
                self._voided[name] = self._voided.get(name, 0) + 1
            return f"secure sum: {', '.join(absent)} sent a key but no count, so the sum is void"
        if len(given) < self._quorum:
            return f"host count: {len(given)} of {len(self.silos)} silos answered, {self._quorum} are needed"
        most = self.config.max_hosts
        plain = not self._keys
        self._hosts = max(1, min(most, total(min(c, most) if plain else c for c in given.values())))
        self._note("count", given)
        self._keys, self._proofs, self._phase = {}, {}, "sketch"
        return None

    def _take_sketches(self, replies: Sequence[SketchReply]) -> str | None:
        if len(replies) < self._quorum:
            return f"sketch: {len(replies)} of {len(self.silos)} silos answered, {self._quorum} are needed"
        # Untrusted: a silo that lies gains at most a multiple of what the others claim.
        claimed = {r.silo: min(1.0, max(0.0, r.similarity)) for r in replies}
        self._similarity, self._cut_similarity = _cut(claimed, SIMILARITY_LIMIT)
        self._share, self._cut = _cut({r.silo: min(1.0, max(0.0, r.share)) for r in replies}, SHARE_LIMIT)
        self._note("sketch", self._similarity)
        self._phase = "done"
        return None

    @property
    def _left_out(self) -> list[str]:
        """Silos that are not asked for a count any more."""
        return sorted(name for name, times in self._voided.items() if times > self.config.retries)

    def _note(self, phase: str, present: Mapping[str, Any]) -> None:
        if absent := [name for name in self.silos if name not in present]:
            self._missing[phase] = absent

    def report(self) -> BootstrapRecord:
        """What was learnt and how secret it stayed, in words where it did not."""
        asked = self._wants_similarity or self._wants_share
        notes = [
            f"{phase}: went on without {', '.join(names)}" for phase, names in sorted(self._missing.items())
        ]
        if self._left_out:
            notes.append(f"count: left out {', '.join(self._left_out)}: {WITHHELD}")
        if self._cut:
            notes.append(
                f"share of {', '.join(self._cut)} cut to {SHARE_LIMIT:g} times the median of the others"
            )
        if self._cut_similarity:
            over = ", ".join(self._cut_similarity)
            notes.append(f"J of {over} cut to {SIMILARITY_LIMIT:g} times the median of the others")
        if asked and not self.config.secure_sum:
            notes.append("secure_sum is off: the coordinator saw every silo's host count")
        elif asked and len(self.silos) == 1:
            notes.append("one silo: the total is its host count")
        elif asked and len(self.silos) < FEWEST_SILOS:
            notes.append("two silos: each can work out the other's host count from the total")
        if self._wants_share:
            notes.append("this rule reveals every silo's share of the hosts")
        return BootstrapRecord(
            hosts=self._hosts,
            masked=asked and self._masked,
            similarity=dict(self._similarity) if self._wants_similarity else {},
            share=dict(self._share) if self._wants_share else {},
            notes=tuple(notes),
        )

    def state(self) -> dict[str, Any]:
        return {
            "phase": self._phase,
            "hosts": self._hosts,
            "similarity": dict(self._similarity),
            "share": dict(self._share),
            "missing": dict(self._missing),
            "voided": dict(self._voided),
            "cut": list(self._cut),
            "cut_similarity": list(self._cut_similarity),
        }

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Take over what `state` gave. A sum under way starts anew: silos may have lost their keys."""
        self._phase = "key" if facts["phase"] == "count" and self._masked else facts["phase"]
        self._keys, self._proofs = {}, {}
        self._hosts = facts["hosts"]
        self._similarity, self._share = dict(facts["similarity"]), dict(facts["share"])
        self._missing, self._voided = dict(facts["missing"]), dict(facts["voided"])
        self._cut, self._cut_similarity = list(facts["cut"]), list(facts["cut_similarity"])


def fewest_keys(quorum: int, silos: int) -> int:
    """How many silos a secure sum must have."""
    return max(quorum, min(FEWEST_SILOS, silos))


def reference_seed(seed: int) -> int:
    """The reference graph's seed is told to every silo; it does not give the run's seed away."""
    digest = hashlib.sha256(f"entente reference graph {seed}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _cut(claims: dict[str, float], limit: float) -> tuple[dict[str, float], list[str]]:
    """No claim beyond a multiple of the others' median, and whose were: no lie becomes everything."""
    if len(claims) < FEWEST_SILOS:
        return claims, []
    limits = {
        name: limit * statistics.median(c for other, c in claims.items() if other != name) for name in claims
    }
    over = sorted(name for name, claim in claims.items() if claim > limits[name] > 0)
    return {name: limits[name] if name in over else claim for name, claim in claims.items()}, over
