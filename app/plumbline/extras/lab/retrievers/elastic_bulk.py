"""Chunks sent in bulk: bounded requests, refused items again after a wait, a lasting refusal by the chunk's id."""

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from plumbline.client.failures import Busy, ClientError
from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retrievers.elastic_server import Server
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.value_kinds import shown
from plumbline.schemas.problem import Problem

# Far below a server's limit for a body (100 MB), and the size that Elastic's own helpers send.
MOST_BYTES: Final = 5_000_000
_Row = tuple[Chunk, bytes]


class BulkLoad:
    """Sends chunks to one index.

    Args:
        sources: the bodies of some chunks, in their order.
        batch: chunks in a request, at most; also how many `sources` is asked for at a time.
        pipeline: that the server passes each one through; None: none.
    """

    def __init__(
        self,
        server: Server,
        index: str,
        sources: Callable[[Sequence[Chunk]], list[dict[str, Any]]],
        *,
        batch: int,
        pipeline: str | None,
    ) -> None:
        self._server = server
        self._path = f"/{index}/_bulk"
        self._sources = sources
        self._batch = batch
        self._params = {"pipeline": pipeline} if pipeline else {}

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Sends them all; sending one twice is sending it once, as its id is the chunk's.

        Raises:
            InvalidInput: the server refused a chunk, or refused to take more of them for too long.
        """
        for rows in self._requests(chunks):
            patience = self._server.patience()
            left = rows
            while left := self._refused_for_now(left):
                try:
                    self._server.wait(patience, _too_many(len(left), self._path))
                except ClientError:
                    detail = f"the server is too busy to take chunk {shown(left[0][0].id)} and {len(left) - 1} others"
                    raise InvalidInput(f"{detail} (429); a smaller batch may help") from None

    def _requests(self, chunks: Sequence[Chunk]) -> Iterator[list[_Row]]:
        for begin in range(0, len(chunks), self._batch):
            some = chunks[begin : begin + self._batch]
            rows: list[_Row] = []
            size = 0
            for chunk, source in zip(some, self._sources(some), strict=True):
                action = msgspec.json.encode({"index": {"_id": chunk.id}})
                lines = b"%b\n%b\n" % (action, msgspec.json.encode(source))
                if rows and size + len(lines) > MOST_BYTES:
                    yield rows
                    rows, size = [], 0
                rows.append((chunk, lines))
                size += len(lines)
            yield rows

    def _refused_for_now(self, rows: list[_Row]) -> list[_Row]:
        lines = b"".join(lines for _, lines in rows)
        answer = self._server.ask("POST", self._path, lines=lines, params=self._params, text=None)
        if answer.get("errors") is False:
            return []
        items = answer.get("items")
        if not isinstance(items, list) or len(items) != len(rows):
            raise InvalidInput(f"the server answered for another number of chunks than the {len(rows)} that were sent")
        again = []
        for row, item in zip(rows, items, strict=True):
            result = item["index"]
            if result["status"] == HTTPStatus.TOO_MANY_REQUESTS:
                again.append(row)
            elif result["status"] >= HTTPStatus.BAD_REQUEST:
                said = self._server.reason(result.get("error"), row[0].text)
                raise InvalidInput(f"chunk {shown(row[0].id)} was refused: {result['status']} {said}")
        return again


def _too_many(count: int, path: str) -> Busy:
    status = HTTPStatus.TOO_MANY_REQUESTS
    detail = f"{count} chunks were refused"
    return Busy(
        Problem(type="about:blank", title=status.phrase, status=status, detail=detail, instance=path, request_id=None)
    )
