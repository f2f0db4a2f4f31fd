"""Elasticsearch or OpenSearch as a source: documents of an index, in order of time."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from pydantic import Field

from entente.service.outputs.base import Unreachable
from entente.service.outputs.http import Client, HttpOptions, parsed
from entente.service.sources.base import Batch, Lines, Position, Source

PAGE = 1000


class OpenSearchOptions(HttpOptions):
    """An index of events."""

    index: str = Field(min_length=1, max_length=255, pattern=r"^[a-z0-9*,._-]+$")
    """Index or pattern that holds the events."""
    time: str = "@timestamp"
    """Field that holds an event's time of arrival; documents are read in its order."""
    query: dict[str, Any] = Field(default_factory=lambda: {"match_all": {}})
    """Which documents to read, in the server's query language."""


class OpenSearch(Source):
    """Pages by `search_after` within a point in time, so that no page shifts under the reader.

    Between two looks reading goes on from the last time seen, without the documents of that very time that
    were read already. Documents that are indexed later with an earlier time are not seen: point `time` at the
    time of arrival (`event.ingested`) where there is one.
    """

    name = "opensearch"
    summary = "an Elasticsearch or OpenSearch index"
    Options = OpenSearchOptions

    def __init__(self, options: OpenSearchOptions, where: str) -> None:
        super().__init__(options, where)
        self._client = Client(options, where)
        self._headers = {"Content-Type": "application/json"}
        if options.token is not None:
            self._headers["Authorization"] = f"ApiKey {options.token.read(where)}"
        self._line = 1
        self._elastic = True

    def read(self, position: Position | None, most: int) -> Batch:
        lines: list[str] = []
        names: list[str] = []
        last = dict(position) if position else {"time": None, "ids": []}
        begin, seen = last["time"], set(last["ids"])
        size, notes = 0, list[str]()
        point: dict[str, Any] = {}
        try:
            point, tie = self._open()
            after = None
            while size < most:
                hits = self._page(point, tie, begin, after)
                for hit in hits:
                    when, after = hit["sort"][0], hit["sort"]
                    if hit["_id"] in seen and when == begin:
                        continue
                    last = {"time": when, "ids": [*(last["ids"] if last["time"] == when else ()), hit["_id"]]}
                    line = json.dumps(hit["_source"], separators=(",", ":"))
                    lines.append(line)
                    names.append(f"{hit.get('_index', self.options.index)}/_doc/{hit['_id']}")
                    size += len(line) + 1
                if len(hits) < PAGE:
                    break
        except (Unreachable, KeyError, TypeError, IndexError, AttributeError) as error:
            notes.append(f"index {self.options.index}: {error}")
        finally:
            self._close(point)
        if not lines:
            return Batch((), position, notes=tuple(notes))
        block = ("\n".join(lines) + "\n").encode()
        first, self._line = self._line, self._line + len(lines)
        part = Lines(f"index {self.options.index}", b"", block, first, tuple(names))
        return Batch((part,), last, notes=tuple(notes))

    def _open(self) -> tuple[dict[str, Any], str]:
        """A point in time, Elasticsearch's or OpenSearch's, and the field that breaks ties of time."""
        index, status = self.options.index, 0
        for path, field, tie in (
            (f"/{index}/_pit?keep_alive=1m", "id", "_shard_doc"),
            (f"/{index}/_search/point_in_time?keep_alive=1m", "pit_id", "_id"),
        ):
            status, answer = self._client.post(path, b"", self._headers)
            if status == 200:
                self._elastic = field == "id"
                return {"id": parsed(answer)[field], "keep_alive": "1m"}, tie
        raise Unreachable(f"no point in time could be opened (answered {status})")

    def _close(self, point: dict[str, Any]) -> None:
        """Let go of a point in time: a server keeps only so many of them open."""
        if not point:
            return
        if self._elastic:
            path, body = "/_pit", {"id": point["id"]}
        else:
            path, body = "/_search/point_in_time", {"pit_id": [point["id"]]}
        with suppress(Unreachable):
            self._client.post(path, json.dumps(body).encode(), self._headers, "DELETE")

    def _page(self, point: dict[str, Any], tie: str, begin: Any, after: Any) -> list[dict[str, Any]]:
        time = self.options.time
        newer = [] if begin is None else [{"range": {time: {"gte": begin, "format": "epoch_millis"}}}]
        body: dict[str, Any] = {
            "size": PAGE,
            "pit": point,
            "query": {"bool": {"filter": [self.options.query, *newer]}},
            "sort": [{time: "asc"}, {tie: "asc"}],
            "track_total_hits": False,
        }
        if after is not None:
            body["search_after"] = after
        status, answer = self._client.post("/_search", json.dumps(body).encode(), self._headers)
        if status != 200:
            raise Unreachable(f"answered {status}: {answer[:200].decode('utf-8', 'replace')}")
        page = parsed(answer)
        point["id"] = page.get("pit_id", point["id"])  # it may change from page to page
        hits = page["hits"]["hits"]
        return list(hits) if isinstance(hits, list) else []

    def close(self) -> None:
        self._client.close()
