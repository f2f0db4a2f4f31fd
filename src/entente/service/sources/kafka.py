"""A Kafka topic whose messages are log lines."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from pydantic import Field

from entente.service.kafka import KafkaCluster, client, library
from entente.service.sources.base import Batch, Lines, Position, Source

LOOK = 0.2


class KafkaSourceOptions(KafkaCluster):
    """A topic of log lines."""

    topic: str
    """Topic that holds the log lines, one message each."""
    start: str = Field(default="earliest", pattern="^(earliest|latest)$")
    """Where to begin a partition that was never read: earliest or latest."""


class KafkaSource(Source):
    """Offsets are kept in the service's database, not in a consumer group of Kafka's."""

    name = "kafka"
    summary = "a Kafka topic, one log line per message"
    Options = KafkaSourceOptions

    def __init__(self, options: KafkaSourceOptions, where: str) -> None:
        super().__init__(options, where)
        own = {"group.id": "entente", "enable.auto.commit": False, "enable.partition.eof": False}
        self._consumer = client("Consumer", options, own, where)
        self._kafka = library()
        self._assigned: dict[int, int] | None = None
        self._line = 1

    def read(self, position: Position | None, most: int) -> Batch:
        offsets = {int(number): int(offset) for number, offset in (position or {}).items()}
        notes = []
        try:
            self._assign(offsets)
        except self._kafka.KafkaException as error:
            return Batch((), position, notes=(f"topic {self.options.topic} cannot be read ({error})",))
        size, until = 0, time.monotonic() + LOOK
        found = defaultdict[int, list[tuple[int, bytes]]](list)  # partition -> offsets and lines
        while size < most and (left := until - time.monotonic()) > 0:
            messages = self._consumer.consume(1000, timeout=left)
            for message in messages:
                if message.error():
                    notes.append(str(message.error()))
                    continue
                value = (message.value() or b"").rstrip(b"\r\n")
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                found[partition].append((offset, value.replace(b"\n", b" ")))
                size += len(value) + 1
                offsets[partition] = offset + 1
        self._assigned = dict(offsets)
        position = {str(number): offset for number, offset in sorted(offsets.items())}
        lines = tuple(self._lines(number, messages) for number, messages in sorted(found.items()))
        return Batch(lines, position, notes=tuple(notes))

    def _lines(self, partition: int, messages: Sequence[tuple[int, bytes]]) -> Lines:
        block = b"\n".join(line for _, line in messages) + b"\n"
        first, self._line = self._line, self._line + len(messages)
        log = f"topic {self.options.topic} partition {partition} offset"
        return Lines(log, b"", block, first, tuple(offset for offset, _ in messages))

    def _assign(self, offsets: dict[int, int]) -> None:
        """Read every partition from where `offsets` says; go back where the last batch was not kept."""
        if self._assigned is not None and self._assigned == offsets:
            return
        topic = self.options.topic
        about = self._consumer.list_topics(topic, timeout=10.0).topics[topic]
        if about.error is not None:
            raise self._kafka.KafkaException(about.error)
        begin = self._kafka.OFFSET_BEGINNING if self.options.start == "earliest" else self._kafka.OFFSET_END
        self._consumer.assign(
            [self._kafka.TopicPartition(topic, n, offsets.get(n, begin)) for n in sorted(about.partitions)]
        )
        self._assigned = dict(offsets)

    def close(self) -> None:
        self._consumer.close()
