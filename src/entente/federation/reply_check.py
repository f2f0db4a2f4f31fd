"""Everything that silos send passes here before it is used; a reply is accepted or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from entente.errors import RefusedError
from entente.federation.messages import (
    CountReply,
    KeyReply,
    Reply,
    SketchReply,
    Task,
    Update,
    ValidateReply,
    check_weights,
    pack,
    unpack,
)
from entente.federation.records import Surplus
from entente.privacy.secure_sum import MODULUS, check_key
from entente.text import visible

ANSWERS: dict[str, type[Reply]] = {
    "key": KeyReply,
    "count": CountReply,
    "sketch": SketchReply,
    "train": Update,
    "validate": ValidateReply,
}
NO_ANSWER = "no answer"
LONGEST_REASON = 300
MOST_EDGES, LARGEST = 1 << 63, 1e300
"""What a silo may say of itself: numbers that tables hold and whose sums are finite."""
MOST_SURPLUS = 100
"""Refused replies beside the silos' own that a record names; a flood of them is only cut short."""


class ReplyCheck:
    """The replies to one task; `refused`: silos without an accepted reply, `surplus`: all else refused."""

    def __init__(self, task: Task, silos: Sequence[str], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._task = task
        self._silos = sorted(silos)
        self._shapes = shapes
        self.refused: dict[str, str] = {}
        self.surplus: list[Surplus] = []

    def accepted(self, replies: Iterable[Reply], failures: Mapping[str, str]) -> Iterator[Reply]:
        """Accepted replies in the order of silo names, whatever order they come in.

        A reply is passed on as soon as every silo before it has answered or failed, so replies that
        come in name order are never held. Of several valid replies in one name the first counts.
        """
        waiting, held, answered = list(self._silos), dict[str, Reply](), set[str]()
        for reply in replies:
            name = reply.silo if isinstance(reply, Reply) and isinstance(reply.silo, str) else ""
            try:
                if name not in self._silos:
                    raise RefusedError("unknown silo")
                if name in answered:
                    raise RefusedError("duplicate: this silo has answered already")
                held[name] = self._checked(reply)
            except RefusedError as error:
                self.refuse(name, error.what, answered)
                continue
            except Exception as error:  # whatever a silo sends, it is that silo's refusal and nobody else's
                self.refuse(name, f"its answer could not be read ({type(error).__name__})", answered)
                continue
            answered.add(name)
            self.refused.pop(name, None)
            while waiting and (waiting[0] in held or waiting[0] in failures):
                if (first := waiting.pop(0)) in held:
                    yield held.pop(first)
        for name in sorted(held):
            yield held.pop(name)
        for name in set(self._silos) - answered - set(self.refused):
            self.refused[name] = visible(failures.get(name, NO_ANSWER), LONGEST_REASON)

    def refuse(self, name: str, reason: str, answered: Iterable[str] = ()) -> None:
        if name in self._silos and name not in answered:
            self.refused[name] = visible(reason, LONGEST_REASON)
        if (name not in self._silos or name in answered) and len(self.surplus) < MOST_SURPLUS:
            self.surplus.append(Surplus(silo=visible(name, 100), reason=visible(reason, LONGEST_REASON)))

    def _checked(self, reply: Any) -> Reply:
        wanted = ANSWERS[self._task.kind]
        if not isinstance(reply, wanted):
            raise RefusedError(f"a {reply.kind!r} message does not answer a {self._task.kind!r} task")
        if isinstance(reply, Update) and not isinstance(reply.weights, Mapping):
            raise RefusedError("weights are not named arrays")
        checked = unpack(*pack(reply))
        assert isinstance(checked, wanted)
        if checked.id != self._task.id:
            raise RefusedError(f"stale: answers task {checked.id}, not {self._task.id}")
        if isinstance(checked, Update | ValidateReply):
            self._check_round(checked)
        if isinstance(checked, KeyReply):
            check_key(checked.key)
        if isinstance(checked, CountReply) and not 0 <= checked.count < MODULUS:
            raise RefusedError(f"host count {checked.count} is out of range")
        return checked

    def _check_round(self, reply: Update | ValidateReply) -> None:
        expected = getattr(self._task, "round", None)
        if reply.round != expected:
            raise RefusedError(f"stale: belongs to round {reply.round}, not {expected}")
        for name, value in (("ap", reply.ap), ("auc", reply.auc)):
            if not 0.0 <= value <= 1.0:
                raise RefusedError(f"{name} {value} is out of range")
        if not 0 <= reply.edges < MOST_EDGES:
            raise RefusedError(f"number of validation edges {reply.edges} is out of range")
        if isinstance(reply, Update):
            if not abs(reply.loss) <= LARGEST:
                raise RefusedError(f"loss {reply.loss} is out of range")
            if not 0.0 <= reply.seconds <= LARGEST:
                raise RefusedError(f"seconds {reply.seconds} is out of range")
            check_weights(reply.weights, self._shapes)
