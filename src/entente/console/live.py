"""Server-sent events: pages hear that alerts came or changed, and ask for what they show."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from entente.console.access import TheGate, Viewer
from entente.console.desk import Desk
from entente.runs.folder import ROUNDS

router = APIRouter(include_in_schema=False)
LOOK = 1.0
"""Seconds between two looks at the store."""
SIGN_OF_LIFE = 15.0
MOST = 200
"""Browsers that may listen at once."""


class Listeners:
    """Counts streams, so that they are bounded."""

    def __init__(self) -> None:
        self.count = 0


@router.get("/events")
async def events(request: Request, gate: TheGate, who: Viewer) -> Response:
    listeners: Listeners = request.app.state.listeners
    if listeners.count >= MOST:
        return Response(status_code=503, headers={"Retry-After": "60"})
    stream = _stream(request, gate.desk, listeners)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _stream(request: Request, desk: Desk, listeners: Listeners) -> AsyncIterator[bytes]:
    listeners.count += 1
    try:
        before, said = await run_in_threadpool(state_of, desk), time.monotonic()
        yield b"retry: 2000\n\n"
        while not request.app.state.stopping() and not await request.is_disconnected():
            now = await run_in_threadpool(state_of, desk)
            if now != before:
                told = {"new": max(0, now[0] - before[0]), "changed": now[1] - before[1]}
                yield f"event: changed\ndata: {json.dumps(told)}\n\n".encode()
                before, said = now, time.monotonic()
            elif time.monotonic() - said > SIGN_OF_LIFE:
                yield b": here\n\n"
                said = time.monotonic()
            await asyncio.sleep(LOOK)
    finally:
        listeners.count -= 1


def state_of(desk: Desk) -> tuple[int, int, int]:
    """Latest alert, latest change, and how long the shown run's record of rounds is."""
    run = desk.settings.run
    path = run / ROUNDS if run is not None else None
    size = path.stat().st_size if path is not None and path.is_file() else 0
    return (*desk.index.marks(), size)
