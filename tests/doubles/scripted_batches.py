"""A provider's Batch API as a script for a `ScriptedJudge`: files, batches and their faults, over real HTTP."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.doubles.scripted_replies import (
    RecordedRequest,
    Reply,
    Scripted,
    Step,
    openai_error,
    raw_body,
    resolve,
    status,
)

# What a line of requests is answered with: the reply that the judge would have given over HTTP.
Answer = Callable[[RecordedRequest], Reply]
Lines = list[dict[str, Any]]


@dataclass
class ScriptedBatches:
    """Runs each batch when it is looked at for the `looks`-th time.

    Args:
        answer: the reply to a request of a batch.
        ends_as: the status of a batch in the end.
        shape: what the provider makes of the lines of replies before it writes them into the output file.
        skips: custom_ids (their number in the file) that an expired batch has not done.
        tail: written behind the last line of the output.

    Attributes:
        files: uploaded and written files by id: name and bytes.
        batches: batches by id, as the API shows them.
    """

    answer: Answer
    ends_as: str = "completed"
    looks: int = 1
    shape: Callable[[Lines], Lines] = list
    skips: frozenset[int] = frozenset()
    tail: bytes = b""
    errors: Sequence[Mapping[str, Any]] = ()
    lists_batches: bool = True
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: dict[str, list[Scripted]] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    header_names: set[str] = field(default_factory=set)

    def refuse(self, call: str, *steps: Scripted) -> None:
        """Answers the next calls such as `POST /files` with these steps; what they stand for is not done."""
        self.refusals.setdefault(call, []).extend(steps)

    def __call__(self, request: RecordedRequest) -> Step:
        url = urlsplit(request.path)
        self.keys.add(request.headers["authorization"])
        self.header_names |= set(request.headers)
        parts = url.path.removeprefix("/v1/").split("/")
        call = f"{request.method} /{parts[0]}"
        if self.refusals.get(call):
            return resolve(self.refusals[call].pop(0), request)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        return self._routed(request, parts, query)

    def made(self, request: RecordedRequest) -> dict[str, Any]:
        """A batch made of the request, as `POST /batches` makes one."""
        batch_id = f"batch-{len(self.batches) + 1}"
        total = len(self.files[request.json["input_file_id"]][1].splitlines())
        counts = {"total": total, "completed": 0, "failed": 0}
        self.batches[batch_id] = {
            "id": batch_id, "object": "batch", "status": "validating", "output_file_id": None, "error_file_id": None,
            "errors": None, "request_counts": counts, "created_at": 1, "looks": 0, **request.json,
        }  # fmt: skip
        return self.batches[batch_id]

    def _routed(self, request: RecordedRequest, parts: list[str], query: Mapping[str, str]) -> Step:
        match (request.method, parts):
            case ("POST", ["files"]):
                step = status(200, self._shown(self._uploaded(request)))
            case ("GET", ["files"]):
                step = status(200, _page([self._shown(file_id) for file_id in self.files], query))
            case ("GET", ["files", file_id, "content"]):
                step = raw_body(self.files[file_id][1], "application/octet-stream")
            case ("POST", ["batches"]):
                step = status(200, self.made(request))
            case ("GET", ["batches"]) if self.lists_batches:
                step = status(200, _page(list(self.batches.values()), query))
            case ("GET", ["batches", batch_id]):
                step = status(200, self._looked_at(self.batches[batch_id]))
            case _:
                step = openai_error(404, "not_found")
        return step

    def _uploaded(self, request: RecordedRequest) -> str:
        boundary = re.search(r"boundary=([^;]+)", request.headers["content-type"])
        assert boundary is not None
        parts = {}
        for part in request.body.split(b"--" + boundary[1].encode())[1:-1]:
            head, _, body = part.strip(b"\r\n").partition(b"\r\n\r\n")
            name = re.search(rb' name="([^"]+)"', head)
            assert name is not None
            file_name = re.search(rb'filename="([^"]+)"', head)
            parts[name[1].decode()] = (file_name[1].decode() if file_name else "", body)
        assert parts["purpose"][1] == b"batch"
        # the end of the last line went with the end of the part
        name_of_file, data = parts["file"]
        return self._kept(name_of_file, data + b"\n")

    def _kept(self, name: str, data: bytes) -> str:
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = (name, data)
        return file_id

    def _shown(self, file_id: str) -> dict[str, Any]:
        name, data = self.files[file_id]
        return {"id": file_id, "object": "file", "filename": name, "bytes": len(data), "purpose": "batch",
                "created_at": 1, "status": "processed"}  # fmt: skip

    def _looked_at(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["looks"] += 1
        if batch["looks"] < self.looks:
            batch["status"] = "in_progress"
        elif batch["looks"] == self.looks:
            self._run(batch)
        return batch

    def _run(self, batch: dict[str, Any]) -> None:
        batch["status"] = self.ends_as
        if self.ends_as == "failed":
            batch["errors"] = {"object": "list", "data": list(self.errors)}
            return
        good: Lines = []
        bad: Lines = []
        for number, line in enumerate(map(json.loads, self.files[batch["input_file_id"]][1].splitlines())):
            if number in self.skips:
                error = {"code": "batch_expired", "message": "not done in time"}
                bad.append({"id": "r", "custom_id": line["custom_id"], "response": None, "error": error})
                continue
            assert line["url"] == batch["endpoint"]
            asked = _request(line)
            reply = self.answer(asked).to(asked)
            response = {"status_code": reply.status_code, "request_id": "r", "body": json.loads(reply.body)}
            answered = {"id": "r", "custom_id": line["custom_id"], "response": response, "error": None}
            (good if reply.status_code == 200 else bad).append(answered)
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
        if good:
            batch["output_file_id"] = self._kept("output", _lines(self.shape(good)) + self.tail)
        if bad:
            batch["error_file_id"] = self._kept("errors", _lines(bad))


def _request(line: Mapping[str, Any]) -> RecordedRequest:
    body = json.dumps(line["body"]).encode()
    return RecordedRequest(line["method"], line["url"], {}, body, line["body"], 0.0)


def _lines(lines: Lines) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _page(items: Lines, query: Mapping[str, str]) -> dict[str, Any]:
    """Newest first, a page of `limit` behind `after`."""
    newest = items[::-1]
    ids = [item["id"] for item in newest]
    start = ids.index(query["after"]) + 1 if "after" in query else 0
    data = newest[start : start + int(query["limit"])]
    return {"object": "list", "data": data, "has_more": start + len(data) < len(newest)}
