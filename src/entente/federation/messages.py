"""What crosses the wire. Every value is checked on arrival; nothing here is trusted.

A message is a frozen value with `facts` (JSON) and `arrays` (named, numeric). A runtime carries
the two; `pack` and `unpack` are all it needs to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays, Bundle
from entente.errors import RefusedError
from entente.text import visible

# ---- coordinator -> silo -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What the coordinator asks of every silo; `id` makes a late or repeated reply recognisable."""

    kind: ClassVar[str]
    id: int


@dataclass(frozen=True, slots=True, eq=False)
class KeyTask(Task):
    """Send a fresh public key for the secure sum."""

    kind = "key"


@dataclass(frozen=True, slots=True, eq=False)
class CountTask(Task):
    """Send your host count, masked towards the named silos' public keys (hex); plain if there are none.

    `proofs` are what the silos sent with their keys, for each other to check.
    """

    kind = "count"
    keys: Mapping[str, str] = field(default_factory=dict)
    proofs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class SketchTask(Task):
    """Compare your graph with the reference graph grown from (hosts, m, seed).

    Only what the rule needs is asked for: the similarity J, the share n^k / n (FedAVG-N alone), or both.
    """

    kind = "sketch"
    similarity: bool = True
    share: bool = False
    hosts: int = 0
    m: int = 5
    seed: int = 0
    labels: str = "log-degree"
    iterations: int = 3


@dataclass(frozen=True, slots=True, eq=False)
class TrainTask(Task):
    """Validate the given weights, then train from them; `best` is the best round so far."""

    kind = "train"
    round: int = 0
    best: int = 0
    epochs: int = 1
    proximal: float = 0.0
    weights: Arrays = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ValidateTask(Task):
    """Validate the given weights (the last round's model has no later round to do it)."""

    kind = "validate"
    round: int = 0
    weights: Arrays = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeTask(Task):
    """Take in what other silos sent (sealed packets by window, width and silo), hand over your own."""

    kind = "exchange"
    packets: Mapping[str, str] = field(default_factory=dict)


# ---- silo -> coordinator -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """A silo's answer to the task with the same `id`."""

    kind: ClassVar[str]
    id: int
    silo: str


@dataclass(frozen=True, slots=True, eq=False)
class KeyReply(Reply):
    """A fresh public key, and in a deployment the proof that it is this silo's."""

    kind = "key-reply"
    key: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CountReply(Reply):
    """A host count modulo 2**64, masked when keys were given."""

    kind = "count-reply"
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SketchReply(Reply):
    """The similarity J of the silo's graph and the reference graph (or its share of hosts) and nothing else.

    What was not asked for is 0.
    """

    kind = "sketch-reply"
    similarity: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ValidateReply(Reply):
    """Validation of the global model on the silo's held-out edges."""

    kind = "validate-reply"
    round: int = 0
    ap: float = 0.0
    auc: float = 0.0
    edges: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Update(Reply):
    """Weights after local training, beside the validation of the weights before it."""

    kind = "update"
    round: int = 0
    loss: float = 0.0
    ap: float = 0.0
    auc: float = 0.0
    edges: int = 0
    seconds: float = 0.0
    weights: Arrays = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeReply(Reply):
    """A silo's packets for the others; the coordinator cannot read them."""

    kind = "exchange-reply"
    packets: Mapping[str, str] = field(default_factory=dict)


Message = Task | Reply
LONGEST = {"proof": 8192}
"""Characters of a text field, where it may have more than 1024."""
LARGEST = 2**64
"""No integer in a message is larger: a masked count is taken modulo this."""
KINDS: dict[str, type[Task] | type[Reply]] = {
    cls.kind: cls
    for cls in (
        KeyTask,
        CountTask,
        SketchTask,
        TrainTask,
        ValidateTask,
        ExchangeTask,
        KeyReply,
        CountReply,
        SketchReply,
        ValidateReply,
        Update,
        ExchangeReply,
    )
}


def pack(message: Message) -> Bundle:
    """A message as JSON-able facts and named arrays."""
    facts: dict[str, Any] = {"kind": message.kind}
    arrays: Arrays = {}
    for item in fields(message):
        value = getattr(message, item.name)
        if item.name == "weights":
            arrays = dict(value)
        else:
            facts[item.name] = dict(value) if isinstance(value, Mapping) else value
    return Bundle(facts, arrays)


def unpack(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Message:
    """The message that `pack` was given; RefusedError for anything that is not one."""
    kind = facts.get("kind")
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise RefusedError(f"unknown message kind {visible(kind, 50)!r}")
    values: dict[str, Any] = {}
    for item in fields(cls):
        if item.name == "weights":
            values["weights"] = dict(arrays)
            continue
        if item.name not in facts:
            raise RefusedError(f"{kind}: field {item.name!r} is missing")
        values[item.name] = _checked(kind, item.name, str(item.type), facts[item.name])
    return cls(**values)


def _checked(kind: Any, name: str, wanted: str, value: Any) -> Any:
    if wanted == "bool" and isinstance(value, bool):
        return value
    if wanted == "int" and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    if wanted == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) > LARGEST:
            raise RefusedError(f"{kind}: field {name!r} is out of range")
        if math.isfinite(value):
            return float(value)
        raise RefusedError(f"{kind}: field {name!r} is not finite")
    if wanted == "str" and isinstance(value, str) and len(value) <= LONGEST.get(name, 1024):
        return value
    if (
        wanted.startswith("Mapping")
        and isinstance(value, Mapping)
        and len(value) <= 10_000
        and all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())
    ):
        return dict(value)
    raise RefusedError(f"{kind}: field {name!r} is not a valid {wanted}")


def check_sender(reply: Reply, sender: str) -> None:
    """RefusedError unless the reply speaks for the silo that the transport has authenticated."""
    if reply.silo != sender:
        raise RefusedError(f"is in the name of {reply.silo[:100]!r}, not in that of {sender!r}")


def check_weights(weights: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """RefusedError unless `weights` are exactly the named float32 arrays, all finite."""
    if set(weights) != set(shapes):
        missing, surplus = sorted(set(shapes) - set(weights)), sorted(set(weights) - set(shapes))
        raise RefusedError(f"weights differ in names (missing {missing[:3]}, unknown {surplus[:3]})")
    for name, shape in shapes.items():
        array = weights[name]
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            raise RefusedError(f"weight {name!r} is {getattr(array, 'dtype', type(array))}, not float32")
        if array.shape != tuple(shape):
            raise RefusedError(f"weight {name!r} has shape {array.shape}, not {tuple(shape)}")
        if not bool(np.isfinite(array).all()):
            raise RefusedError(f"weight {name!r} is not finite")
