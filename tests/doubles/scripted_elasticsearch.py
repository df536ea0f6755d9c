"""A little Elasticsearch, or OpenSearch, as a script for a `ScriptedService`: over real HTTP, with indexes that score.

It speaks the calls that the lab makes, refuses what the real servers refuse of them (types and queries of the other
flavour, bodies without an end, k beyond the window), and ranks by BM25, maxima over fields, phrases, weights and
cosines as they are documented. It is not the real one: no stemming, no graph, and no limit that is not written here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.doubles.scripted_relevance import Index, Source, cosines, expanded, multi_match, products
from tests.doubles.scripted_service import Answer, Asked, json_answer

NDJSON = "application/x-ndjson"
_TYPES = {
    "elasticsearch": {"text", "sparse_vector", "dense_vector"},
    "opensearch": {"text", "rank_features", "knn_vector"},
}
_BODY_KEYS = {"query", "knn", "size", "_source", "track_total_hits"}


@dataclass
class ScriptedElasticsearch:
    """Answers as a server would.

    Args:
        flavour, version: what it says it is.
        key: the header Authorization that it wants; None: none.
        models: sparse models that are deployed.

    Attributes:
        refusals: answers to the next requests such as `POST _bulk`, in place of doing them.
        item_errors: by id, the statuses with which a document is refused in turn before it is taken.
    """

    flavour: str = "elasticsearch"
    version: str = "9.1.0"
    key: str | None = None
    models: frozenset[str] = frozenset({"sparse-model"})
    indexes: dict[str, Index] = field(default_factory=dict)
    pipelines: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: dict[str, list[Answer]] = field(default_factory=dict)
    item_errors: dict[str, list[int]] = field(default_factory=dict)

    def __call__(self, asked: Asked) -> Answer:
        answer = self._answer(asked)
        # by this header the client of Elasticsearch knows its server, and refuses any other
        product = {"x-elastic-product": "Elasticsearch"} if self.flavour == "elasticsearch" else {}
        return replace(answer, headers={**answer.headers, **product})

    def _answer(self, asked: Asked) -> Answer:
        parts = asked.path.strip("/").split("/")
        call = f"{asked.method} {next((part for part in parts if part.startswith('_')), '/' if parts == [''] else '')}"
        if self.key is not None and asked.headers.get("authorization") != self.key:
            return error(401, "security_exception", "missing authentication credentials for REST request")
        if self.refusals.get(call.strip()):
            return self.refusals[call.strip()].pop(0)
        if parts == [""]:
            return json_answer(self._about())
        if parts[:2] == ["_ingest", "pipeline"]:
            return self._pipeline(asked, parts[2])
        return self._index(asked, parts[0], parts[1] if len(parts) > 1 else "")

    def _about(self) -> Source:
        named = {"distribution": "opensearch"} if self.flavour == "opensearch" else {"build_flavor": "default"}
        return {"name": "scripted", "version": {"number": self.version, **named}, "tagline": "scripted"}

    def _pipeline(self, asked: Asked, name: str) -> Answer:
        if asked.method == "PUT":
            kind = "sparse_encoding" if self.flavour == "opensearch" else "inference"
            if [*asked.json["processors"][0]] != [kind]:
                return error(400, "parse_exception", f"No processor type exists with name {asked.json['processors']}")
            self.pipelines[name] = asked.json
        elif name not in self.pipelines:
            return json_answer({}, 404)
        elif asked.method == "DELETE":
            del self.pipelines[name]
        else:
            return json_answer({name: self.pipelines[name]})
        return json_answer({"acknowledged": True})

    def _index(self, asked: Asked, name: str, verb: str) -> Answer:
        if asked.method == "PUT":
            return self._create(name, asked.json)
        index = self.indexes.get(name)
        if index is None:
            return error(404, "index_not_found_exception", f"no such index [{name}]")
        if asked.method == "DELETE":
            del self.indexes[name]
            return json_answer({"acknowledged": True})
        calls: dict[str, Callable[[Asked, Index], Answer]] = {
            "_bulk": self._bulk,
            "_search": self._search,
            "_refresh": lambda *_: self._refreshed(index),
            "_forcemerge": lambda *_: json_answer({"_shards": {"failed": 0}}),
            "_count": lambda *_: json_answer({"count": len(index.documents) if index.is_refreshed else 0}),
            "_mapping": lambda *_: json_answer({name: {"mappings": index.body["mappings"]}}),
            "_stats": lambda *_: json_answer(
                {"indices": {name: {"primaries": {"store": {"size_in_bytes": _stored(index)}}}}}
            ),
        }
        return calls[verb](asked, index)

    def _create(self, name: str, body: Source) -> Answer:
        if name in self.indexes:
            return error(400, "resource_already_exists_exception", f"index [{name}] already exists")
        for about in body["mappings"].get("properties", {}).values():
            if about["type"] not in _TYPES[self.flavour]:
                reason = f"No handler for type [{about['type']}] declared on field"
                return error(400, "mapper_parsing_exception", reason)
            if about.get("analyzer") == "smartcn":
                return error(400, "mapper_parsing_exception", "analyzer [smartcn] has not been configured in mappings")
        self.indexes[name] = Index(body)
        return json_answer({"acknowledged": True, "shards_acknowledged": True, "index": name})

    def _refreshed(self, index: Index) -> Answer:
        index.is_refreshed = True
        return json_answer({"_shards": {"failed": 0}})

    def _bulk(self, asked: Asked, index: Index) -> Answer:
        if asked.headers["content-type"] != NDJSON:
            return error(406, "media_type_header_exception", "Content-Type header is not supported")
        if not asked.body.endswith(b"\n"):
            return error(400, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
        lines = [json.loads(line) for line in asked.body.splitlines()]
        items = []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            id_ = action["index"]["_id"]
            status, problem = self._taken(id_, source, asked.params.get("pipeline"), index)
            items.append({"index": {"_id": id_, "status": status, **({"error": problem} if problem else {})}})
        return json_answer({"errors": any(item["index"]["status"] >= 400 for item in items), "items": items})

    def _taken(self, id_: str, source: Source, pipeline: str | None, index: Index) -> tuple[int, Source | None]:
        if self.item_errors.get(id_):
            status = self.item_errors[id_].pop(0)
            kind = "es_rejected_execution_exception" if status == 429 else "document_parsing_exception"
            reason = f"failed to parse field. Preview of field's value: '{next(iter(source.values()))}'"
            return status, {"type": kind, "reason": reason}
        if pipeline:
            processor = next(iter(self.pipelines[pipeline]["processors"][0].values()))
            if processor["model_id"] not in self.models:
                return 404, {"type": "resource_not_found_exception", "reason": "Inference endpoint not found"}
            given = processor.get("input_output", [{}])[0]
            ends = dict([(given["input_field"], given["output_field"])] if given else processor["field_map"])
            source = {**source, **{end: expanded(source[begin]) for begin, end in ends.items()}}
        index.documents[id_] = source
        return 201, None

    def _search(self, asked: Asked, index: Index) -> Answer:
        body = asked.json
        if unknown := set(body) - _BODY_KEYS:
            return error(400, "parsing_exception", f"unknown key {sorted(unknown)} in the search")
        if body["size"] > 10_000:
            return error(400, "illegal_argument_exception", "Result window is too large")
        scores = self._scores(body, index)
        if isinstance(scores, Answer):
            return scores
        found = sorted(((score, id_) for id_, score in scores.items() if score > 0), key=lambda hit: -hit[0])
        hits = [{"_id": id_, "_score": score} for score, id_ in found[: body["size"]]]
        return json_answer({"hits": {"hits": hits}} if hits else {})

    def _scores(self, body: Source, index: Index) -> dict[str, float] | Answer:
        is_open = self.flavour == "opensearch"
        if "knn" in body:
            asked = body["knn"]
            return (
                error(400, "parsing_exception", "Unknown key [knn]")
                if is_open
                else cosines(index, asked["field"], asked["query_vector"])
            )
        ((kind, clause),) = body["query"].items()
        if kind == "multi_match":
            return multi_match(clause, index)
        if kind == "knn" and is_open:
            ((name, asked),) = clause.items()
            return cosines(index, name, asked["vector"])
        known = {"neural_sparse"} if is_open else {"sparse_vector", "text_expansion"}
        if kind not in known:
            return error(400, "parsing_exception", f"unknown query [{kind}]")
        if kind == "sparse_vector":
            return products(index, clause["field"], clause["query"])
        ((name, asked),) = clause.items()
        return products(index, name, asked["query_text" if is_open else "model_text"])


def error(status: int, kind: str, reason: str) -> Answer:
    """A refusal, as both servers word it."""
    cause = {"type": kind, "reason": reason}
    return json_answer({"error": {"root_cause": [cause], **cause}, "status": status}, status)


def _stored(index: Index) -> int:
    return sum(len(json.dumps(source)) for source in index.documents.values())
