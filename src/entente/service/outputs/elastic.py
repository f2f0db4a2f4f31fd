"""Elasticsearch and OpenSearch: ECS documents through the bulk interface, each under its alert's id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from entente.detection.alerts import Alert
from entente.detection.sinks import create as create_sink
from entente.service.outputs.base import Delivery, Output, Unreachable
from entente.service.outputs.http import Client, HttpOptions, one_by_one, parsed, temporary

EXISTS = 409
"""Status of a document that is there already: this very alert, sent before."""
TOO_LARGE = 413


class ElasticOptions(HttpOptions):
    """Elasticsearch or OpenSearch."""

    index: str = Field(default="entente-alerts", pattern=r"^[a-z0-9][a-z0-9._-]{0,254}$")
    """Index or data stream that takes the alerts."""


class Elastic(Output):
    name = "elastic"
    summary = "Elasticsearch or OpenSearch, ECS documents through _bulk"
    Options = ElasticOptions

    def __init__(self, options: ElasticOptions, where: str) -> None:
        super().__init__(options, where)
        self._client = Client(options, where)
        self._headers = {"Content-Type": "application/x-ndjson"}
        if options.token is not None:
            self._headers["Authorization"] = f"ApiKey {options.token.read(where)}"
        self._documents = create_sink("ecs")

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        documents = self._documents.render(alerts).splitlines()
        lines = []
        for alert, document in zip(alerts, documents, strict=True):
            lines += [json.dumps({"create": {"_index": self.options.index, "_id": alert.id}}), document]
        body = ("\n".join(lines) + "\n").encode()
        status, answer = self._client.post("/_bulk", body, self._headers)
        if status == TOO_LARGE and len(alerts) > 1:
            return one_by_one(lambda one: self.deliver(one, mark), alerts)
        if status == TOO_LARGE:
            return Delivery(1, {alerts[0].id: f"answered {status}"})
        if status != 200:
            raise Unreachable(f"answered {status}")
        items = _items(parsed(answer), len(alerts))
        refused: dict[str, str] = {}
        for taken, (alert, item) in enumerate(zip(alerts, items, strict=True)):
            code = item.get("status")
            if type(code) is not int:
                raise Unreachable("the answer does not tell what became of each document")
            if temporary(code):
                if not taken:
                    raise Unreachable(f"document answered with {code}")
                return Delivery(taken, refused)
            if code >= 300 and code != EXISTS:
                refused[alert.id] = json.dumps(item.get("error", code))
        return Delivery(len(alerts), refused)

    def close(self) -> None:
        self._client.close()


def _items(answer: Any, count: int) -> list[dict[str, Any]]:
    """One result per document, in order; Unreachable when the answer holds anything else."""
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or len(items) != count:
        raise Unreachable("the answer does not tell what became of each document")
    found = [item.get("create") if isinstance(item, dict) else None for item in items]
    if not all(isinstance(item, dict) for item in found):
        raise Unreachable("the answer does not tell what became of each document")
    return [dict(item) for item in found if isinstance(item, dict)]
