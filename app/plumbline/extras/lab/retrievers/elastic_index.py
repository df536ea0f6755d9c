"""A retriever whose index lies on an Elasticsearch or OpenSearch server: create, bulk load, search, delete."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from plumbline.client.failures import Busy, ClientError
from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts
from plumbline.extras.lab.retrievers.elastic_server import Server
from plumbline.extras.lab.retrievers.elastic_settings import IndexPlan, Planner, ServerSettings
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import shown
from plumbline.schemas.problem import Problem

# Far below a server's limit for a body (100 MB), and the size that Elastic's own helpers send.
MOST_BYTES: Final = 5_000_000
_BulkRow = tuple[Chunk, bytes]


# By this an index or a pipeline is known as the lab's; nothing without it is ever deleted or written over.
MARKER: Final = "made by plumbline lab"
MOST_HITS: Final = 10_000  # index.max_result_window, and the most candidates of kNN
_MOST_ID_BYTES: Final = 512
_DIGEST_BYTES: Final = 8
# Settings that make no other index of it.
_ELSEWHERE: Final = {*ServerSettings.model_fields} - {"kind", "merge"}
_BARE: Final = {"filter_path": "hits.hits._id,hits.hits._score", "allow_partial_search_results": "false"}


class ServerIndex:
    """One index of one experiment's chunks, with one shard and no replica; `server` is the settings' by default."""

    def __init__(self, settings: ServerSettings, planner: Planner, *, server: Server | None = None) -> None:
        self._settings = settings
        self._planner = planner
        self._server = server or Server(settings)
        self._plan: IndexPlan | None = None
        self._name = ""
        self._made: list[str] = []

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Create and fill the index; nothing is kept in `folder`.

        Raises:
            InvalidInput: the server is not there, refuses, or holds something else under the index's name.
        """
        if not chunks:
            raise InvalidInput("there is no chunk to index")
        for chunk in chunks:
            if not 1 <= len(chunk.id.encode()) <= _MOST_ID_BYTES:
                raise InvalidInput(f"chunk {shown(chunk.id)}: the server takes ids of 1 to {_MOST_ID_BYTES} bytes")
        facts = self._server.facts()
        self._plan = plan = self._planner(facts, chunks)
        self._name = f"{self._settings.index_prefix}-{_digest(self._settings, plan, chunks)}"
        self._make_pipeline(plan)
        self._make_index(plan)
        self._load(plan, chunks)
        if self._settings.merge:
            self._server.ask("POST", f"/{self._name}/_forcemerge", params={"max_num_segments": "1"})
        self._server.ask("POST", f"/{self._name}/_refresh")
        held = self._server.ask("GET", f"/{self._name}/_count")["count"]
        if held != len(chunks):
            raise InvalidInput(f"the server holds {held} chunks of the {len(chunks)} that it took")
        store = self._server.ask("GET", f"/{self._name}/_stats/store")["indices"][self._name]["primaries"]["store"]
        return IndexFacts(
            chunks=held,
            index_bytes=int(store["size_in_bytes"]),
            bytes_are="store size by the server's statistics, with the stored source",
            engine=facts.engine,
            stated={**plan.stated, "shards": 1, "merged": "yes" if self._settings.merge else "no"},
        )

    def search(self, query: str, k: int) -> Hits:
        """Send one search request; InvalidInput where the server refuses or is gone, or k is beyond its window."""
        if not 1 <= k <= MOST_HITS:
            raise InvalidInput(f"k: expected 1 to {MOST_HITS}, the window of a server's results, got {k}")
        if self._plan is None:
            raise RuntimeError("search before build")
        body = self._plan.search(query, k)
        answer = self._server.ask("POST", f"/{self._name}/_search", body, params=_BARE, text=query)
        return [(hit["_id"], float(hit["_score"])) for hit in answer.get("hits", {}).get("hits", [])]

    def close(self) -> None:
        """Delete what was created on the server, unless `keep` is set; failures are logged."""
        try:
            for path in self._made if not self._settings.keep else ():
                self._server.ask("DELETE", path, is_optional=True)
        except InvalidInput as error:
            structlog.get_logger().warning("lab_index_left", index=self._name, detail=str(error))
        finally:
            self._made = []
            self._server.close()

    def _make_pipeline(self, plan: IndexPlan) -> None:
        if not plan.processors:
            return
        path = f"/_ingest/pipeline/{self._name}"
        there = self._server.ask("GET", path, is_optional=True).get(self._name)
        if there is not None and there.get("description") != MARKER:
            raise InvalidInput(f"the pipeline {self._name} exists and is not the lab's; set another index_prefix")
        self._server.ask("PUT", path, {"description": MARKER, "processors": list(plan.processors)})
        self._made.append(path)

    def _make_index(self, plan: IndexPlan) -> None:
        path = f"/{self._name}"
        there = self._server.ask("GET", f"{path}/_mapping", is_optional=True)
        if there:
            meta = there.get(self._name, {}).get("mappings", {}).get("_meta") or {}
            if meta.get("made_by") != MARKER:
                raise InvalidInput(f"the index {self._name} exists and is not the lab's; set another index_prefix")
            self._server.ask("DELETE", path)
        mappings: dict[str, Any] = {"dynamic": False, "_meta": {"made_by": MARKER}, "properties": dict(plan.properties)}
        if plan.unkept:
            mappings["_source"] = {"excludes": list(plan.unkept)}
        # One shard, so that term statistics are of all chunks; sizes computed on demand
        index = {
            "number_of_shards": 1,
            "number_of_replicas": 0,
            "refresh_interval": "-1",
            "store.stats_refresh_interval": "0s",
            **plan.settings,
        }
        self._server.ask("PUT", path, {"settings": {"index": index}, "mappings": mappings})
        self._made.insert(0, path)

    def _load(self, plan: IndexPlan, chunks: Sequence[Chunk]) -> None:
        """Send all chunks, refused ones again with backoff; idempotent, as a document's id is the chunk's."""
        path = f"/{self._name}/_bulk"
        params = {"pipeline": self._name} if plan.processors else {}
        status = HTTPStatus.TOO_MANY_REQUESTS
        for rows in self._requests(plan, chunks):
            patience = self._server.patience()
            left = rows
            while left := self._refused_for_now(path, params, left):
                refused = f"{len(left)} chunks were refused"
                problem = Problem(
                    type="about:blank",
                    title=status.phrase,
                    status=status,
                    detail=refused,
                    instance=path,
                    request_id=None,
                )
                try:
                    self._server.wait(patience, Busy(problem))
                except ClientError:
                    detail = f"the server is too busy to take chunk {shown(left[0][0].id)} and {len(left) - 1} others"
                    raise InvalidInput(f"{detail} (429); a smaller batch may help") from None

    def _requests(self, plan: IndexPlan, chunks: Sequence[Chunk]) -> Iterator[list[_BulkRow]]:
        for begin in range(0, len(chunks), self._settings.batch):
            some = chunks[begin : begin + self._settings.batch]
            rows: list[_BulkRow] = []
            size = 0
            for chunk, source in zip(some, plan.sources(some), strict=True):
                action = msgspec.json.encode({"index": {"_id": chunk.id}})
                lines = b"%b\n%b\n" % (action, msgspec.json.encode(source))
                if rows and size + len(lines) > MOST_BYTES:
                    yield rows
                    rows, size = [], 0
                rows.append((chunk, lines))
                size += len(lines)
            yield rows

    def _refused_for_now(self, path: str, params: Mapping[str, str], rows: list[_BulkRow]) -> list[_BulkRow]:
        lines = b"".join(lines for _, lines in rows)
        answer = self._server.ask("POST", path, lines=lines, params=params, text=None)
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


def _digest(settings: ServerSettings, plan: IndexPlan, chunks: Sequence[Chunk]) -> str:
    """Return the same digest for the same experiment and chunks, so that a killed run's index is found again."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    encoder = msgspec.json.Encoder()
    digest.update(encoder.encode((settings.model_dump(mode="json", exclude=_ELSEWHERE), dict(plan.stated))))
    for chunk in chunks:
        digest.update(encoder.encode((chunk.id, dict(chunk.fields))))
    return digest.hexdigest()
