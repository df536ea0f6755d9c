"""The server when the process may open no more files."""

import asyncio
from typing import Any

import structlog
import uvicorn

from plumbline.cli.connections import DrainingServer


async def _app(scope: Any, receive: Any, send: Any) -> None: ...


async def test_connections_that_cannot_be_accepted_are_one_line_and_no_traceback() -> None:
    server, loop = DrainingServer(uvicorn.Config(_app)), asyncio.get_running_loop()
    refused = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")}

    with structlog.testing.capture_logs() as events:
        for _ in range(2_048):
            server.on_loop_error(loop, refused)

    assert [event["event"] for event in events] == ["descriptors_exhausted"]
    assert "ulimit -n" in events[0]["detail"]


async def test_any_other_error_of_the_loop_is_logged_as_before(caplog: Any) -> None:
    server, loop = DrainingServer(uvicorn.Config(_app)), asyncio.get_running_loop()

    server.on_loop_error(loop, {"message": "something else"})

    assert "something else" in caplog.text
