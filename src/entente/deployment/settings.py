"""The federation file (TOML): who takes part, where the coordinator listens, what was agreed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from entente.config import (
    ChosenAggregation,
    Experiment,
    Privacy,
    Section,
    aggregation_options,
    read_toml,
    validation_problems,
)
from entente.errors import ConfigError

SiteName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")]
RESERVED = {"coordinator", "server", "operator", "authority", "admin", "all"}


class CoordinatorSite(Section):
    """Where the coordinator is reached."""

    host: str = Field(default="localhost", pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$")
    """Name or address silos connect to; loopback names are bound to loopback only."""
    port: int = Field(default=8102, ge=1, le=65535)
    """Port for silos (mutual TLS)."""
    operator_port: int = Field(default=8103, ge=1, le=65535)
    """Port for submitting jobs; always bound to loopback on the coordinator's machine."""

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.port == self.operator_port:
            raise ValueError("port and operator_port must differ")
        return self


LESS = ("batch_edges",)
"""Options of detectors of which any number takes less memory than none."""


class Terms(Section):
    """What all sites agreed; an experiment cannot change it."""

    identity: Literal["keyed-hash"] = "keyed-hash"
    """Host names stay in the silo. A shared index would need everybody's host names in one place."""
    quorum: float = Field(default=0.5, gt=0, le=1)
    """Share of the silos whose accepted update a round needs."""
    retries: int = Field(default=2, ge=0)
    """How often a round below quorum is repeated before the run stops with a checkpoint."""
    deadline: float = Field(default=3600.0, gt=0)
    """Seconds a silo has for one task."""
    gathering: float = Field(default=300.0, gt=0)
    """Seconds a submitted job waits for silos to connect; then it starts with a quorum or gives up."""
    update_limit: float = Field(default=256.0, gt=0, le=2000)
    """Megabytes a single message may have."""
    secure_sum: bool = True
    """Learn the total host count by a pairwise-masked sum."""
    max_hosts: int = Field(default=1_000_000, ge=2, le=20_000_000)
    """The total host count is cut here; silos grow a reference graph of that size."""
    memory: float = Field(default=16.0, gt=0)
    """Gigabytes that a silo's job may use."""
    rounds: int = Field(default=200, ge=1)
    """Most rounds of a run."""
    epochs: int = Field(default=10, ge=1)
    """Most local epochs per round."""
    shortest_window: float = Field(default=10.0, gt=0)
    """Least seconds of a window: a short one makes a silo's graph large."""
    table_size: int = Field(default=1 << 21, ge=16, le=1 << 26)
    """Most rows of the identity table."""
    width: int = Field(default=4096, ge=1)
    """Largest whole number among the detector's options (widths, copies), except those of `LESS`."""
    exchange: bool = False
    """While detecting, silos tell one another under pseudonyms which hosts stand out (docs/exchange.md)."""
    aggregation: ChosenAggregation = Field(default_factory=lambda: aggregation_options({}))
    privacy: Privacy = Privacy(randomness="secret")
    """Noise on the model that silos get to see; agreed by all, so that nobody can leave it out."""

    @model_validator(mode="after")
    def _noise_is_secret(self) -> Self:
        if self.privacy.mechanism == "central" and self.privacy.randomness == "seeded":
            raise ValueError(
                'privacy: central noise with a seeded generator can be removed; randomness must be "secret"'
            )
        return self

    def apply(self, experiment: Experiment) -> Experiment:
        """The experiment with the agreed terms in place of its own."""
        federation = experiment.federation.model_copy(
            update={
                "quorum": self.quorum,
                "retries": self.retries,
                "deadline": self.deadline,
                "secure_sum": self.secure_sum,
                "max_hosts": self.max_hosts,
                "exchange": self.exchange,
                "aggregation": self.aggregation,
            }
        )
        # A path means nothing to a site, or too much; nobody has agreed that users get rows.
        graph = experiment.graph.model_copy(
            update={"identity": self.identity, "roles": None, "nodes": "hosts"}
        )
        return experiment.model_copy(
            update={"federation": federation, "graph": graph, "privacy": self.privacy}
        )

    def excess(self, experiment: Experiment) -> str | None:
        """The first ceiling that `experiment` goes beyond, in words; None if it stays below all."""
        federation, detector = experiment.federation, experiment.detector
        asked = [
            ("federation.rounds", federation.rounds, self.rounds),
            ("graph.table_size", experiment.graph.table_size, self.table_size),
        ]
        if federation.epochs != "auto":  # that is the installed detector's own number
            asked.append(("federation.epochs", federation.epochs, self.epochs))
        asked += [
            (f"detector.{name}", value, self.width)
            for name, value in detector.model_dump().items()
            if isinstance(value, int) and not isinstance(value, bool) and name not in LESS
        ]
        for name, value, most in asked:
            if value > most:
                return f"{name} is {value}, the agreed ceiling is {most}"
        window = experiment.data.window
        if window < self.shortest_window:
            return f"data.window is {window:g} s, agreed were {self.shortest_window:g} s or more"
        return None

    def breach(self, experiment: Experiment) -> str | None:
        """The first agreed term that `experiment` does not keep, in words; None if it keeps all."""
        agreed = self.apply(experiment)
        for section in ("federation", "graph", "privacy"):
            wanted, given = getattr(agreed, section), getattr(experiment, section)
            for name in type(wanted).model_fields:
                if getattr(wanted, name) != getattr(given, name):
                    return (
                        f"{section}.{name} is {getattr(given, name)!r}, agreed was {getattr(wanted, name)!r}"
                    )
        return self.excess(experiment)


class FederationFile(Section):
    """The whole federation file."""

    name: SiteName = "federation"
    """Name of the federation; it is also the name of its certificate authority."""
    silos: tuple[SiteName, ...] = Field(min_length=1, max_length=1000)
    """One name per silo."""
    certificate_days: int = Field(default=360, ge=1, le=3650)
    """Validity of the authority; a site's certificate lasts 360 days at most."""
    coordinator: CoordinatorSite = CoordinatorSite()
    terms: Terms = Field(default_factory=Terms)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        if len(set(self.silos)) != len(self.silos):
            raise ValueError("two silos have the same name")
        reserved = sorted(set(self.silos) & RESERVED)
        if reserved:
            raise ValueError(f"{reserved[0]!r} is a reserved name")
        return self

    @property
    def quorum(self) -> int:
        """How many silos the agreed share amounts to."""
        return needed(self.terms.quorum, len(self.silos))


def needed(share: float, silos: int) -> int:
    """The least number of silos that is at least `share` of all."""
    return max(1, -int(-(share * silos) // 1))


def load_federation(path: Path) -> FederationFile:
    """Read a federation file."""
    return parse_federation(read_toml(path, "`entente federation init` writes one."), path)


def parse_federation(table: Any, where: str | Path = "federation file") -> FederationFile:
    try:
        return FederationFile.model_validate(table)
    except ValidationError as error:
        raise ConfigError(validation_problems(error), where=where) from error


TEMPLATE = """\
# An Entente federation. Every site agrees to this file; `entente federation provision` makes the kits.
name = "{name}"
silos = [{silos}]

[coordinator]
host = "{host}"            # name or address the silos connect to
port = {port}              # for silos, mutual TLS
operator_port = {operator_port}     # for `submit`, loopback only

[terms]
identity = "keyed-hash"    # host names never leave a silo
quorum = 0.5               # share of the silos a round needs
retries = 2                # repeats of a round below quorum, then stop with a checkpoint
deadline = 3600            # seconds a silo has for one task
gathering = 300            # seconds a job waits for silos to connect
update_limit = 256         # megabytes of one message
secure_sum = true          # the coordinator learns only the sum of host counts
memory = 16                # gigabytes a silo's job may use
rounds = 200               # ceilings of what an experiment may ask for
epochs = 10
shortest_window = 10       # seconds
table_size = 2097152       # rows of the identity table
width = 4096               # largest whole number among the detector's options
exchange = false           # true: silos tell one another, under pseudonyms, which hosts stand out

[terms.aggregation]
rule = "entente"

[terms.privacy]
mechanism = "none"         # none, weak or central noise on the model
randomness = "secret"      # central noise must not be seeded: whoever knows the seed can remove it
"""


def template(name: str, silos: tuple[str, ...], host: str, port: int, operator_port: int) -> str:
    """The text of a federation file with the defaults spelt out."""
    text = TEMPLATE.format(
        name=name,
        silos=", ".join(f'"{silo}"' for silo in silos),
        host=host,
        port=port,
        operator_port=operator_port,
    )
    parse_federation(tomllib.loads(text), "federation init")
    return text
