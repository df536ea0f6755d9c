"""A retriever whose index lies on an Elasticsearch or OpenSearch server: made, filled, asked and taken away again."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts
from plumbline.extras.lab.retrievers.elastic_bulk import BulkLoad
from plumbline.extras.lab.retrievers.elastic_plan import Plan, Planner
from plumbline.extras.lab.retrievers.elastic_server import Server
from plumbline.extras.lab.retrievers.elastic_settings import ServerSettings
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.value_kinds import shown

# By this an index or a pipeline is known as the lab's; nothing without it is ever deleted or written over.
MARKER: Final = "made by plumbline lab"
MOST_HITS: Final = 10_000  # index.max_result_window, and the most candidates of kNN
_MOST_ID_BYTES: Final = 512
_DIGEST_BYTES: Final = 8
# Settings that make no other index of it.
_ELSEWHERE: Final = {*ServerSettings.model_fields} - {"kind", "merge"}
_BARE: Final = {"filter_path": "hits.hits._id,hits.hits._score", "allow_partial_search_results": "false"}


class ServerIndex:
    """One index of one experiment's chunks, with one shard and no replica.

    Args:
        settings: the server's.
        planner: what the kind of query needs.
        server: in place of the one that the settings name.
    """

    def __init__(self, settings: ServerSettings, planner: Planner, *, server: Server | None = None) -> None:
        self._settings = settings
        self._planner = planner
        self._server = server or Server(settings)
        self._plan: Plan | None = None
        self._name = ""
        self._made: list[str] = []

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """As the protocol says; nothing is kept in `folder`.

        Raises:
            InvalidInput: the server is not there, refuses, or holds something else under the index's name.
        """
        _check_ids(chunks)
        facts = self._server.facts()
        self._plan = plan = self._planner(facts, chunks)
        self._name = f"{self._settings.index_prefix}-{_digest(self._settings, plan, chunks)}"
        pipeline = self._make_pipeline(plan)
        self._make_index(plan)
        load = BulkLoad(self._server, self._name, plan.sources, batch=self._settings.batch, pipeline=pipeline)
        load.send(chunks)
        if self._settings.merge:
            self._server.ask("POST", f"/{self._name}/_forcemerge", params={"max_num_segments": "1"})
        self._server.ask("POST", f"/{self._name}/_refresh")
        held = self._server.ask("GET", f"/{self._name}/_count")["count"]
        if held != len(chunks):
            raise InvalidInput(f"the server holds {held} chunks of the {len(chunks)} that it took")
        return IndexFacts(
            chunks=held,
            index_bytes=self._bytes(),
            bytes_are="store size by the server's statistics, with the stored source",
            engine=facts.engine,
            stated={**plan.stated, "shards": 1, "merged": "yes" if self._settings.merge else "no"},
        )

    def search(self, query: str, k: int) -> Hits:
        """One request.

        Raises:
            InvalidInput: the server refused or is gone, or k is more than it gives at one time.
        """
        if not 1 <= k <= MOST_HITS:
            raise InvalidInput(f"k: expected 1 to {MOST_HITS}, the window of a server's results, got {k}")
        if self._plan is None:
            raise RuntimeError("search before build")
        body = self._plan.search(query, k)
        answer = self._server.ask("POST", f"/{self._name}/_search", body, params=_BARE, text=query)
        return [(hit["_id"], float(hit["_score"])) for hit in answer.get("hits", {}).get("hits", [])]

    def close(self) -> None:
        """Deletes what was made on the server, unless it is to be kept; what cannot be deleted is logged."""
        try:
            for path in self._made if not self._settings.keep else ():
                self._server.ask("DELETE", path, is_optional=True)
        except InvalidInput as error:
            structlog.get_logger().warning("lab_index_left", index=self._name, detail=str(error))
        finally:
            self._made = []
            self._server.close()

    def _make_pipeline(self, plan: Plan) -> str | None:
        if not plan.processors:
            return None
        path = f"/_ingest/pipeline/{self._name}"
        there = self._server.ask("GET", path, is_optional=True).get(self._name)
        if there is not None and there.get("description") != MARKER:
            raise InvalidInput(f"the pipeline {self._name} is there and not the lab's; set another index_prefix")
        self._server.ask("PUT", path, {"description": MARKER, "processors": list(plan.processors)})
        self._made.append(path)
        return self._name

    def _make_index(self, plan: Plan) -> None:
        path = f"/{self._name}"
        there = self._server.ask("GET", f"{path}/_mapping", is_optional=True)
        if there:
            meta = there.get(self._name, {}).get("mappings", {}).get("_meta") or {}
            if meta.get("made_by") != MARKER:
                raise InvalidInput(f"the index {self._name} is there and not the lab's; set another index_prefix")
            self._server.ask("DELETE", path)
        self._server.ask("PUT", path, _index_body(plan))
        self._made.insert(0, path)

    def _bytes(self) -> int:
        answer = self._server.ask("GET", f"/{self._name}/_stats/store")
        return int(answer["indices"][self._name]["primaries"]["store"]["size_in_bytes"])


def _index_body(plan: Plan) -> dict[str, Any]:
    """One shard, so that term statistics are of all chunks; sizes that are counted when they are asked for."""
    mappings: dict[str, Any] = {"dynamic": False, "_meta": {"made_by": MARKER}, "properties": dict(plan.properties)}
    if plan.unkept:
        mappings["_source"] = {"excludes": list(plan.unkept)}
    index = {
        "number_of_shards": 1,
        "number_of_replicas": 0,
        "refresh_interval": "-1",
        "store.stats_refresh_interval": "0s",
        **plan.settings,
    }
    return {"settings": {"index": index}, "mappings": mappings}


def _digest(settings: ServerSettings, plan: Plan, chunks: Sequence[Chunk]) -> str:
    """The same for the same experiment on the same chunks, so that a run that was killed finds what it left."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    encoder = msgspec.json.Encoder()
    digest.update(encoder.encode((settings.model_dump(mode="json", exclude=_ELSEWHERE), dict(plan.stated))))
    for chunk in chunks:
        digest.update(encoder.encode((chunk.id, dict(chunk.fields))))
    return digest.hexdigest()


def _check_ids(chunks: Sequence[Chunk]) -> None:
    if not chunks:
        raise InvalidInput("there is no chunk to index")
    for chunk in chunks:
        if not 1 <= len(chunk.id.encode()) <= _MOST_ID_BYTES:
            raise InvalidInput(f"chunk {shown(chunk.id)}: the server takes ids of 1 to {_MOST_ID_BYTES} bytes")
