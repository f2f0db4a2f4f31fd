"""One experiment file (TOML) <-> frozen, validated models; unknown keys are errors.

Every number a user may tune lives here, with the paper's default and a sentence.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from entente.errors import ConfigError


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Data(Section):
    """Where events come from and how time is cut."""

    events: Path = Path("events")
    """Event directory, as `entente ingest` leaves it."""
    silos: Path | None = None
    """Table host,silo as `entente split` leaves it; without it everything is one silo."""
    window: float = Field(default=1800.0, gt=0)
    """Seconds of one snapshot (paper: 1800 for LANL, 360 for OpTC)."""
    start: float | None = None
    """Second at which the first window begins; the first event's window by default."""
    train: float = Field(default=42 * 3600.0, gt=0)
    """Seconds from the start that are used for training and validation; the rest is the test."""
    validation: float = Field(default=0.1, ge=0, lt=1)
    """Share of the training windows, the last ones, kept for learning the threshold."""
    end: float | None = None
    """Second at which the test ends; the last event by default."""


class Graph(Section):
    """How a silo's events become its graph."""

    augmentation: bool = True
    """1-hop augmentation: keep edges with one foreign endpoint. Off = both endpoints are the silo's own."""
    static: bool = False
    """Merge all windows into one graph."""
    identity: Literal["shared-index", "keyed-hash"] = "shared-index"
    """Who knows host names: everybody, or nobody outside the silo (hosts are HMAC'd into a table)."""
    table_size: int = Field(default=65536, ge=16, le=1 << 26)
    """Rows of the identity table with keyed-hash; a shared index has one row per host."""
    secret: Path | None = None
    """File with the silos' shared hash secret (keyed-hash); the coordinator never has it."""


class Euler(Section):
    """GCN + GRU over snapshots."""

    name: Literal["euler"] = "euler"
    encoder: Literal["gcn", "sage", "gat"] = "gcn"
    """Graph layer, used twice."""
    temporal: Literal["gru", "lstm", "none"] = "gru"
    """Recurrent layer over each host's snapshots."""
    decoder: Literal["inner", "mlp"] = "mlp"
    """The paper's inner product has no weights to send but cannot tell a → b from b → a; mlp can."""
    task: Literal["detection", "prediction"] = "prediction"
    """Score an edge from its own window (detection, as in the paper) or from the one before it."""
    hidden: int = Field(default=32, ge=1)
    """Width of both graph layers and of the recurrent layer."""
    embedding: int = Field(default=16, ge=1)
    """Width of the final projection."""
    dropout: float = Field(default=0.25, ge=0, lt=1)
    """Share of units dropped after each graph layer in training."""
    edge_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of each window's edges hidden from the encoder, drawn anew each epoch (published code: 0.8)."""
    lr: float = Field(default=0.03, gt=0)
    """Adam's rate (paper: 0.01 LANL, 0.005 OpTC)."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Adam's weight decay."""
    validation_edges: float = Field(default=0.05, gt=0, lt=1)
    """Share of each training window's edges held out to validate a round."""
    negatives: int = Field(default=1, ge=1)
    """Sampled non-edges per edge."""
    identities: Literal["trained", "fixed"] = "trained"
    """A host's row: trained and sent, or a random unit vector, the same in every silo."""
    advance: Literal["visits", "windows"] = "visits"
    """When a host's state moves on: in windows in which it has an edge, or in all windows (published)."""


class Jbeil(Section):
    """TGN over single events."""

    name: Literal["jbeil"] = "jbeil"
    memory: int = Field(default=100, ge=1)
    """Width of a host's memory."""
    time: int = Field(default=100, ge=1)
    """Width of the time encoding."""
    embedding: int = Field(default=100, ge=1)
    """Width of a host's embedding."""
    layers: int = Field(default=2, ge=1, le=3)
    """Attention layers, hence hops."""
    heads: int = Field(default=2, ge=1)
    """Attention heads."""
    neighbours: int = Field(default=10, ge=1)
    """Most recent neighbours that attention looks at."""
    batch: int = Field(default=200, ge=1)
    """Events per batch."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of units dropped in training."""
    lr: float = Field(default=0.003, gt=0)
    """Adam's rate (paper: 0.003 on Pivoting, 0.01 on LANL)."""
    validation_events: float = Field(default=0.15, gt=0, lt=1)
    """Share of the training events, the last ones, that validate a round."""
    hidden_hosts: float = Field(default=0.0, ge=0, lt=1)
    """Share of hosts hidden from training (inductive: 0.3); the same hosts in every silo."""


class BehaviourOptions(Section):
    """Small network over a silo's own counts."""

    name: Literal["behaviour"] = "behaviour"
    hidden: int = Field(default=32, ge=2)
    """Width of the first hidden layer; the second has half of it."""
    replicas: int = Field(default=12, ge=1)
    """Copies of the training history with injected campaigns to learn from."""
    lr: float = Field(default=0.003, gt=0)
    """Adam's rate."""
    batch: int = Field(default=512, ge=1)
    """Examples per step."""


class BaselineOptions(Section):
    """A trivial rule: no weights, nothing to federate."""

    name: Literal["first-seen", "pair-frequency", "rare-target", "novelty-burst", "edgebank", "midas"]
    memory: float | None = None
    """EdgeBank only: seconds after which an edge is forgotten; unlimited by default."""


DetectorConfig = Annotated[Euler | Jbeil | BehaviourOptions | BaselineOptions, Field(discriminator="name")]


class Aggregation(Section):
    """The coordinator's rule. Options that a rule does not use are ignored by it."""

    rule: str = "entente"
    """See `entente aggregators`."""
    c1: float = Field(default=0.8, ge=0)
    """Weight of the sketch similarity J in a contribution r."""
    c2: float = Field(default=0.2, ge=0)
    """Weight of S * D in a contribution r."""
    omega: float = Field(default=5.0, gt=0)
    """Upper bound of the distance D."""
    bound: float | Literal["auto"] = "auto"
    """Norm bound M; auto = the paper's 5 for Euler and 70 for Jbeil."""
    adaptive: bool = True
    """After the first round M follows the norms of recent updates instead of staying at `bound`."""
    adaptive_factor: float = Field(default=1.0, gt=0)
    """Adaptive M = this times the median over the last five rounds of the median norm over silos."""
    scope: Literal["model", "component", "tables"] = "model"
    """Bound the whole update; ENC, TEMP and DEC apart (the paper's Algorithm 4); or identity tables apart."""
    reduction: Literal["mean", "sum"] = "mean"
    """Divide the sum of contributions by K (the paper's equation) or not (its Algorithm 4)."""
    rows: Literal["all", "holders"] = "all"
    """Average an identity row over all silos, or over those that hold it."""
    row_cap: float = Field(default=0.0, ge=0)
    """Entente: no identity row moves by more than this times a typical row of recent rounds; 0 = no cap."""
    acs: bool = True
    """Adaptive contribution scaling; off = r is c1 * J + c2 throughout (for the ablation)."""
    sketch: bool = True
    """Use the sketch similarity; off = J is 1 for every silo (for the ablation)."""
    mu: float = Field(default=0.05, ge=0)
    """FedProx: weight of the proximal term."""
    server: Literal["adam", "yogi"] = "adam"
    """FedOpt: the coordinator's optimiser."""
    server_lr: float = Field(default=0.01, gt=0)
    """FedOpt: its rate."""
    trim: float = Field(default=0.2, ge=0, lt=0.5)
    """Trimmed mean: share cut at each end."""
    byzantine: int = Field(default=1, ge=0)
    """Krum: how many silos are assumed to cheat."""
    multi: int = Field(default=0, ge=0)
    """Multi-Krum: how many updates are averaged; 0 = K - byzantine - 2, at least 1."""
    radius: float = Field(default=1.0, gt=0)
    """Centred clipping: radius around the momentum."""


class Federation(Section):
    """Rounds, quorum, deadlines."""

    aggregation: Aggregation = Aggregation()
    rounds: int = Field(default=30, ge=1)
    """At most this many (paper: 30 Euler, 5 Jbeil)."""
    epochs: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Local epochs E per round; auto = 2 for behaviour, 5 for Euler, 1 for Jbeil (paper: 1 for both)."""
    patience: int = Field(default=30, ge=1)
    """Stop after this many rounds without a better validation AP + AUC."""
    quorum: float = Field(default=0.5, gt=0, le=1)
    """Share of the silos whose accepted update a round needs."""
    retries: int = Field(default=2, ge=0)
    """How often a round below quorum is repeated before the run stops with a checkpoint."""
    deadline: float = Field(default=3600.0, gt=0)
    """Seconds a silo has for one task."""
    m: int = Field(default=5, ge=1)
    """Edges per new node of the Barabási–Albert reference graph."""
    labels: Literal["degree", "log-degree"] = "log-degree"
    """First labels of the Weisfeiler–Lehman sketch."""
    iterations: int = Field(default=3, ge=0)
    """Weisfeiler–Lehman iterations."""
    secure_sum: bool = True
    """Learn the total host count by a pairwise-masked sum; needs three silos or more."""
    max_hosts: int = Field(default=1_000_000, ge=2, le=20_000_000)
    """The total host count is cut here: a lie must not make every silo grow an endless reference graph."""


class Privacy(Section):
    """Noise on the aggregated update."""

    mechanism: Literal["none", "weak", "central"] = "none"
    """weak = small fixed sensitivity, no guarantee; central = noise for the true sensitivity."""
    sigma: float = Field(default=0.2, gt=0)
    """Noise multiplier (paper: 1.0 weak, 0.2 central)."""
    sensitivity: float = Field(default=0.001, gt=0)
    """Weak DP's M_qs."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """Delta at which epsilon is reported (the paper's 0.1 is not a meaningful guarantee)."""
    clip: float | None = Field(default=None, gt=0)
    """Clip every silo's update to this norm before a rule sees it; central noise needs it for most rules."""
    randomness: Literal["seeded", "secret"] = "seeded"
    """seeded noise can be reproduced, and so removed, by whoever knows the seed; secret is for real runs."""


class Attack(Section):
    """Silos that cheat, for the attack lab."""

    name: str
    """See `entente attacks`."""
    silos: tuple[str, ...]
    """Which silos cheat."""
    from_round: int = Field(default=1, ge=1)
    """First round in which they do."""
    p: float = Field(default=1.0, ge=0, le=1)
    """Probability that a training snapshot is poisoned."""
    gamma: float = Field(default=1.0)
    """Factor on the update."""
    scaling: Literal["update", "weights"] = "update"
    """gamma scales w - w_i (update) or w itself (weights)."""
    strength: float = Field(default=1.0)
    """Attack-specific strength; see `entente attacks`."""


class Detection(Section):
    """Scores -> alerts."""

    false_alarms: float = Field(default=0.001, gt=0, lt=1)
    """Threshold = score that this share of benign validation edges exceeds."""
    budgets: tuple[int, ...] = (3, 5, 10)
    """Alerts per window for which recall is reported."""
    ensemble: Literal["none", "first-seen", "pair-frequency", "rare-target", "novelty-burst"] = "none"
    """A rule counted from the silo's own logs, whose score multiplies the model's surprise."""


class Experiment(Section):
    """The whole experiment file."""

    name: str = "experiment"
    """For the run folder and the report."""
    seed: int = Field(default=0, ge=0)
    """Of everything random; the same seed gives the same bits."""
    mode: Literal["federated", "local-only", "non-fl"] = "federated"
    """federated; local-only = each silo alone; non-fl = all data in one place."""
    workers: int = Field(default=1, ge=1)
    """Processes that train silos side by side; the result does not depend on it."""
    data: Data = Data()
    graph: Graph = Graph()
    detector: DetectorConfig = Euler()
    federation: Federation = Federation()
    privacy: Privacy = Privacy()
    attack: Attack | None = None
    detection: Detection = Detection()


def load_experiment(path: Path, overrides: tuple[str, ...] = ()) -> Experiment:
    """Read an experiment file and apply `path=value` overrides (`federation.rounds=5`)."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=path, remedy="Give the path of a TOML file."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not valid TOML: {error}", where=path) from error
    for override in overrides:
        _apply(table, override)
    experiment = parse_experiment(table, path)
    # Absolute, so that the copy in a run folder still names the same files.
    return resolve_paths(experiment, path.parent.resolve())


def parse_experiment(table: dict[str, Any], where: str | Path = "experiment") -> Experiment:
    try:
        return Experiment.model_validate(table)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in e['loc']) or 'file'}: {e['msg']}" for e in error.errors()
        )
        raise ConfigError(
            problems,
            where=where,
            remedy="Unknown keys are errors; `entente train --help` lists the sections.",
        ) from error


def resolve_paths(experiment: Experiment, base: Path) -> Experiment:
    """Make relative paths relative to the experiment file."""
    data = experiment.data.model_copy(
        update={
            "events": base / experiment.data.events,
            "silos": None if experiment.data.silos is None else base / experiment.data.silos,
        }
    )
    secret = experiment.graph.secret
    graph = experiment.graph.model_copy(update={"secret": None if secret is None else base / secret})
    return experiment.model_copy(update={"data": data, "graph": graph})


def _apply(table: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    if not separator:
        raise ConfigError(
            f"--set {override!r} is not path=value", remedy="Example: --set federation.rounds=5"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = path.strip().split(".")
    for part in parents:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {part!r} is not a section")
    table[last] = value


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as TOML that `load_experiment` reads back."""
    plain, lines = experiment.model_dump(mode="json", exclude_none=True), []

    def write(table: dict[str, Any], prefix: str) -> None:
        scalars = {k: v for k, v in table.items() if not isinstance(v, dict)}
        if prefix and (scalars or not table):
            lines.append(f"\n[{prefix}]")
        lines.extend(f"{key} = {_literal(value)}" for key, value in scalars.items())
        for key, value in table.items():
            if isinstance(value, dict):
                write(value, f"{prefix}.{key}" if prefix else key)

    write(plain, "")
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if value is None:
        return "none"
    if isinstance(value, Path):
        return _literal(str(value))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return repr(value)


def settings_reference() -> str:
    """Every setting with its default and sentence, as Markdown; docs/configuration.md is this text."""
    lines = ["# Settings of an experiment file", "", "`entente train --settings` prints this page.", ""]

    def write(model: type[Section], prefix: str) -> None:
        nested: list[tuple[type[Section], str]] = []
        lines.extend(
            [f"## `[{prefix}]`" if prefix else "## Top level", "", (model.__doc__ or "").strip(), ""]
        )
        lines.extend(["| key | default | meaning |", "|---|---|---|"])
        for name, field in model.model_fields.items():
            inner = [part for part in (field.annotation, *get_args(field.annotation)) if _is_section(part)]
            if inner:
                nested.extend((part, f"{prefix}.{name}" if prefix else name) for part in inner)
                continue
            default = "" if field.is_required() else f"`{_literal(field.get_default())}`"
            allowed = [value for part in _literals(field.annotation) for value in part]
            choice = f" One of {', '.join(f'`{value}`' for value in allowed)}." if len(allowed) > 1 else ""
            lines.append(f"| `{name}` | {default} | {' '.join((field.description or '').split())}{choice} |")
        lines.append("")
        for part, path in nested:
            write(part, path)

    write(Experiment, "")
    return "\n".join(lines)


def _is_section(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Section)


def _literals(annotation: Any) -> list[tuple[Any, ...]]:
    if get_origin(annotation) is Literal:
        return [get_args(annotation)]
    return [found for part in get_args(annotation) for found in _literals(part)]
