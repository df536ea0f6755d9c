"""A collector of traces on a loopback socket, as far as an exporter can tell."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """What was sent: paths, and spans by name with the resource that they are of."""

    url: str
    paths: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        """All spans, in order of arrival."""
        return [span for each in self._requests() for part in each.scope_spans for span in part.spans]

    @property
    def resources(self) -> list[dict[str, str]]:
        """What the senders say of themselves."""
        return [{each.key: each.value.string_value for each in part.resource.attributes} for part in self._requests()]

    def _requests(self) -> Iterator[Any]:
        for body in self.bodies:
            yield from ExportTraceServiceRequest.FromString(body).resource_spans


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for as long as the context lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.collector = Collector(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.collector  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector: Collector = self.server.collector  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["content-length"]))
        collector.paths.append(self.path)
        collector.bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return
