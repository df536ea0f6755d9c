"""A server that speaks as much of Elasticsearch's HTTP as a lab needs, and refuses what Elasticsearch would refuse.

Queries and mappings are held against the classes of `elasticsearch.dsl`, which Elastic generates from the published
specification (github.com/elastic/elasticsearch-specification); retrievers against the table below, from its
`_types/Retriever.ts`. Hits are ranked by shared words, or by the vectors' cosine.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
from elasticsearch.dsl import field as dsl_field
from elasticsearch.dsl import query as dsl_query

_BASE = {"filter", "min_score", "_name"}
RETRIEVERS: Mapping[str, set[str]] = {
    "standard": {*_BASE, "query", "search_after", "terminate_after", "sort", "collapse"},
    "knn": {*_BASE, "field", "query_vector", "query_vector_builder", "k", "num_candidates", "similarity"},
    "rrf": {*_BASE, "retrievers", "query", "fields", "rank_constant", "rank_window_size"},
    "linear": {*_BASE, "retrievers", "query", "fields", "normalizer", "rank_window_size"},
}
_PART_OF_LINEAR = {"retriever", "weight", "normalizer"}


class Refused(Exception):
    """A body that Elasticsearch answers with 400."""


class ScriptedElasticsearch:
    """Indices in memory. `searched`: the bodies of all searches, with their index."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, dict[str, Any]]] = {}
        self.mappings: dict[str, dict[str, Any]] = {}
        self.pipelines: dict[str, Any] = {}
        self.searched: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    def answer(self, method: str, path: str, body: bytes) -> Any:
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == [""]:
            return {"version": {"number": "9.1.0", "build_flavor": "default"}, "tagline": "You Know, for Search"}
        if parts[0] == "_bulk" or parts[-1] == "_bulk":
            return self._bulk(body)
        if parts[:2] == ["_ingest", "pipeline"]:
            self.pipelines[parts[2]] = json.loads(body)
            return {"acknowledged": True}
        index, action = parts[0], parts[1] if len(parts) > 1 else ""
        if action == "_search":
            return self._search(index, json.loads(body))
        if action == "_stats":
            size = len(json.dumps(self.documents[index]))
            return {"_all": {"primaries": {"store": {"size_in_bytes": size}}}, "indices": {}}
        if method == "PUT" and not action:
            self._create(index, json.loads(body))
        elif method == "DELETE":
            self.documents.pop(index, None)
        return {"acknowledged": True, "_shards": {"total": 1, "successful": 1, "failed": 0}}

    def _create(self, index: str, body: Mapping[str, Any]) -> None:
        if index in self.documents:
            raise Refused("resource_already_exists_exception")
        properties = body.get("mappings", {}).get("properties", {})
        for settings in properties.values():
            kind = "".join(map(str.capitalize, settings["type"].split("_")))
            _check_keys(getattr(dsl_field, kind), settings.keys() - {"type"})
        pipeline = body["settings"].get("default_pipeline")
        if pipeline is not None and pipeline not in self.pipelines:
            raise Refused(f"pipeline with id [{pipeline}] does not exist")
        self.documents[index], self.mappings[index] = {}, properties

    def _bulk(self, body: bytes) -> Any:
        lines, items = [json.loads(line) for line in body.splitlines() if line], []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            of = action["index"]
            index = of["_index"]
            for name, settings in self.mappings[index].items():
                if settings["type"] == "dense_vector" and len(document[name]) != settings["dims"]:
                    raise Refused("wrong number of dimensions")
            self.documents[index][of["_id"]] = document
            items.append({"index": {"_id": of["_id"], "status": 201}})
        return {"errors": False, "items": items}

    def _search(self, index: str, body: dict[str, Any]) -> Any:
        self.searched.append((index, body))
        if body["size"] > 10_000:
            raise Refused("Result window is too large")
        scores = self._scores(index, body["retriever"])
        best = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[: body["size"]]
        return {"hits": {"hits": [{"_id": name, "_score": score} for name, score in best]}}

    def _scores(self, index: str, retriever: Mapping[str, Any]) -> dict[str, float]:
        ((kind, of),) = retriever.items()
        if kind not in RETRIEVERS or of.keys() - RETRIEVERS[kind]:
            raise Refused(f"unknown retriever [{kind}] or key of {sorted(of)}")
        if kind == "knn":
            return self._neighbours(index, of)
        if kind == "rrf":
            lists = [self._scores(index, part) for part in of["retrievers"]]
            return _add_up(
                {name: 1 / (of["rank_constant"] + rank) for rank, name in enumerate(sorted(each, key=each.get), 1)}  # type: ignore[arg-type]
                for each in lists
            )
        if kind == "linear":
            for part in of["retrievers"]:
                if part.keys() - _PART_OF_LINEAR or part.get("normalizer", "none") not in ("none", "minmax", "l2_norm"):
                    raise Refused(f"unknown key or normalizer of {sorted(part)}")
            parts = [(part["weight"], self._scores(index, part["retriever"])) for part in of["retrievers"]]
            return _add_up({name: weight * score for name, score in each.items()} for weight, each in parts)
        return self._matches(index, of["query"])

    def _matches(self, index: str, query: Mapping[str, Any]) -> dict[str, float]:
        ((kind, of),) = query.items()
        known = getattr(dsl_query, "".join(map(str.capitalize, kind.split("_"))), None)
        if known is None:
            raise Refused(f"unknown query [{kind}]")
        _check_keys(known, of.keys())
        if kind == "multi_match":
            kinds = str(inspect.signature(known.__init__).parameters["type"].annotation)
            if f"'{of['type']}'" not in kinds:
                raise Refused(f"No type specified for name [{of['type']}]")
        elif self.mappings[index][of["field"]]["type"] != "sparse_vector":
            raise Refused(f"[{of['field']}] is no sparse_vector")
        asked = _words(of["query"])
        shared = {name: len(asked & _words(json.dumps(each))) for name, each in self.documents[index].items()}
        return {name: float(count) for name, count in shared.items() if count}

    def _neighbours(self, index: str, of: Mapping[str, Any]) -> dict[str, float]:
        if not of["k"] <= of["num_candidates"] <= 10_000:
            raise Refused("[num_candidates] cannot be less than [k], nor exceed [10000]")
        vector = np.array(of["query_vector"])
        found = {name: np.array(each[of["field"]]) for name, each in self.documents[index].items()}
        cosines = {
            name: float(each @ vector / np.linalg.norm(each) / np.linalg.norm(vector)) for name, each in found.items()
        }
        return {name: (1 + cosine) / 2 for name, cosine in cosines.items()}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _add_up(lists: Iterator[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in lists:
        for name, score in each.items():
            total[name] = total.get(name, 0.0) + score
    return total


def _check_keys(known: type, keys: Any) -> None:
    if unknown := set(keys) - inspect.signature(known.__init__).parameters.keys():  # type: ignore[misc]
        raise Refused(f"{known.__name__} does not support {sorted(unknown)}")


@contextmanager
def scripted_elasticsearch() -> Iterator[ScriptedElasticsearch]:
    """Serve on a free port of loopback."""
    state = ScriptedElasticsearch()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, answer = 200, state.answer(self.command, self.path, body)
            except Refused as error:
                status, answer = 400, {"error": {"type": "parsing_exception", "reason": str(error)}, "status": 400}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
