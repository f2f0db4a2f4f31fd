"""How to reach a Kafka cluster, for the source and the output alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from entente.config import Section
from entente.errors import ConfigError, MissingExtraError
from entente.service.secrets import Secret


class KafkaCluster(Section):
    """A Kafka cluster."""

    servers: str
    """Bootstrap servers, host:port, with commas between them."""
    settings: Mapping[str, str] = Field(default_factory=dict)
    """Further librdkafka settings (security.protocol, sasl.mechanism, ssl.ca.location ...)."""
    password: Secret | None = None
    """Given to librdkafka as sasl.password."""


def library() -> Any:
    """The module confluent_kafka; MissingExtraError where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise MissingExtraError(
            "kafka needs confluent-kafka", remedy="pip install 'entente[kafka]'"
        ) from error
    return confluent_kafka


def client(kind: str, cluster: KafkaCluster, own: Mapping[str, Any], where: str) -> Any:
    """A Producer or Consumer of the cluster with settings of our own."""
    kafka = library()
    secret = {"sasl.password": cluster.password.read(where)} if cluster.password else {}
    try:
        return getattr(kafka, kind)(
            {**cluster.settings, **secret, "bootstrap.servers": cluster.servers, **own}
        )
    except kafka.KafkaException as error:
        raise ConfigError(f"Kafka settings are not accepted ({error})", where=where) from error
