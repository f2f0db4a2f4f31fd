"""Kafka: one JSON message per alert, keyed by the alert's id, from an idempotent producer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from entente.detection.alerts import Alert
from entente.service.kafka import KafkaCluster, client, library
from entente.service.outputs.base import Delivery, Output, Unreachable


class KafkaOptions(KafkaCluster):
    """A topic for alerts."""

    topic: str = Field(default="entente-alerts", min_length=1, max_length=249)
    """Topic that takes the alerts."""
    timeout: float = Field(default=30.0, gt=0, le=600)
    """Seconds for a batch to be acknowledged."""


class Kafka(Output):
    name = "kafka"
    summary = "Kafka topic, JSON, keyed by alert id"
    Options = KafkaOptions

    def __init__(self, options: KafkaOptions, where: str) -> None:
        super().__init__(options, where)
        own = {"enable.idempotence": True, "message.timeout.ms": round(options.timeout * 1000)}
        self._producer = client("Producer", options, own, where)
        self._error: type[Exception] = library().KafkaException
        code = library().KafkaError
        self._refusals = (code.MSG_SIZE_TOO_LARGE, code.INVALID_MSG, code.INVALID_RECORD)

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        problems: list[str] = []
        refused: dict[str, str] = {}

        def told(error: Any, message: Any) -> None:
            if error is None:
                return
            if error.code() in self._refusals:
                refused[message.key().decode()] = str(error)
            else:
                problems.append(str(error))

        try:
            for alert in alerts:
                value = json.dumps(alert.as_dict(), allow_nan=False).encode()
                try:
                    self._producer.produce(self.options.topic, value, key=alert.id, on_delivery=told)
                except self._error as error:
                    if error.args[0].code() not in self._refusals:
                        raise
                    refused[alert.id] = str(error)
            left = self._producer.flush(self.options.timeout)
        except (self._error, BufferError) as error:
            raise Unreachable(f"cannot be reached ({error})") from error
        if problems or left:
            raise Unreachable(problems[0] if problems else f"{left} messages were not acknowledged")
        return Delivery(len(alerts), refused)

    def close(self) -> None:
        self._producer.flush(1.0)
