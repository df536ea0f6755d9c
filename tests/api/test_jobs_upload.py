"""Bodies of new jobs: two forms, streamed to a file, what is wrong is named, nothing is left of a cut one."""

import asyncio
import gzip
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.settings import Settings
from plumbline.rows.jobs.job import NewJob
from plumbline.rows.jobs.submission import Submission, Upload
from tests.doubles.memory_store import MemoryStore
from tests.making.cases import load_cases
from tests.running.edge_app import read_problem, scope_of
from tests.running.job_service import JOBS_URL, app_with, jobs_running, lines, read_job, row
from tests.running.service import plain_settings

FILE = ("rows.jsonl", lines(row("a"), row("b")))
FORM = "multipart/form-data; boundary=b"
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="rows.jsonl"\r\n\r\n'
CSV = b'custom_id,contexts,answer\na,"[""The bridge was opened in 1931.""]",It was.\n'


class KeepingStore(MemoryStore):
    """Notes what it is handed, and fails when told to."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.contents: list[bytes] = []
        self.modes: set[int] = set()
        self.taken: list[tuple[NewJob, Upload]] = []
        self._fails = fails

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        self.contents.append(upload.path.read_bytes())
        self.modes.add(stat.S_IMODE(upload.path.stat().st_mode))
        self.taken.append((new, upload))
        if self._fails:
            raise StoreUnavailable("the disk of the data folder is full; make room and try again")
        return await super().submit(new, upload)

    @property
    def left_over(self) -> list[str]:
        """Files of uploads; none outlives its request."""
        return [path.name for path in self.uploads.iterdir()] if self.uploads.exists() else []


async def post(store: MemoryStore, settings: Settings | None = None, **request: Any) -> httpx2.Response:
    async with jobs_running(store, settings) as client:
        return await client.post(JOBS_URL, **request)


async def post_file(
    store: MemoryStore, body: bytes, choices: Any = None, settings: Settings | None = None
) -> httpx2.Response:
    text = choices if isinstance(choices, str) else json.dumps(choices or {})
    return await post(store, settings, files={"file": ("rows.jsonl", body), "choices": (None, text)})


# --- the two forms


async def test_a_file_is_kept_as_it_is_with_choices_in_a_part() -> None:
    store = KeepingStore()
    body = b'{"answer": "a",   "contexts": ["b"]}\r\n\n{"broken'

    choices = {"name": "nightly", "options": {"tiers": ["lexical"], "threshold": 0.7}, "columns": "ragas_old"}
    job = read_job(await post_file(store, body, choices), 202)

    assert store.contents == [body]
    assert store.modes == {0o600}
    (new, upload) = store.taken[0]
    assert (upload.form, upload.columns, new.name) == ("jsonl", "ragas_old", "nightly")
    assert json.loads(new.options)["threshold"] == job["options"]["threshold"] == 0.7
    assert store.left_over == []


async def test_choices_in_the_query_are_refused_and_not_ignored() -> None:
    store = KeepingStore()

    problem = read_problem(await post(store, json={"rows": [{"answer": "a"}]}, params={"choices": "{}"}), 422)

    assert "query parameter 'choices'" in problem.errors[0].detail
    assert (store.taken, store.left_over) == ([], [])


async def test_rows_of_a_json_body_are_written_as_they_were_sent_one_a_line() -> None:
    store = KeepingStore()
    body = b"""\xef\xbb\xbf{"name": "n", "rows": [
        {"answer": "a\\u2028 b",
         "contexts": ["c"], "twice": 1, "twice": 2},
        3, null, {"number": 1e400, "long": 1111111111111111111111111111111111111111111111111111111111111111}
    ,[ ]] , "max_cost":1}"""

    read_job(await post(store, content=body, headers={"content-type": "application/json"}), 202)

    assert store.contents[0].decode().split("\n") == [
        '{"answer": "a\\u2028 b",          "contexts": ["c"], "twice": 1, "twice": 2}',
        "3",
        "null",
        '{"number": 1e400, "long": 1111111111111111111111111111111111111111111111111111111111111111}',
        "[ ]",
        "",
    ]
    assert store.taken[0][1].form == "jsonl"


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("rows.jsonl", FILE[1], "jsonl"),
        ("rows.NDJSON", FILE[1], "jsonl"),
        ("rows.jsonl.gz", gzip.compress(FILE[1], mtime=0), "jsonl"),
        ("rows.csv", CSV, "csv"),
        ("../../etc/rows.tsv", CSV.replace(b",", b"\t"), "tsv"),
        ("行.json", b"[" + FILE[1].replace(b"\n", b",").rstrip(b",") + b"]", "json"),
    ],
)
async def test_a_file_in_a_form_has_its_format_by_its_name(name: str, content: bytes, form: str) -> None:
    store = KeepingStore()

    read_job(await post(store, files={"file": (name, content)}), 202)

    assert (store.contents, store.taken[0][1].form) == ([content], form)
    assert store.left_over == []


async def test_parts_come_in_any_order_and_a_format_has_the_last_word() -> None:
    store = KeepingStore()
    parts = [
        ("file", ("table.txt", CSV)),
        ("format", (None, "csv")),
        ("choices", ("choices.json", b'{"name": "late", "max_cost": 1}', "application/json")),
    ]

    for order in (parts, parts[::-1]):
        read_job(await post(store, files=order), 202)

    assert [(new.name, new.max_cost, upload.form) for new, upload in store.taken] == [("late", 1.0, "csv")] * 2
    assert store.taken[0][0].fingerprint == store.taken[1][0].fingerprint


async def test_a_file_larger_than_what_is_gathered_arrives_whole() -> None:
    store = KeepingStore()
    content = lines(*(row(f"r{number}", "\r\n--boundary--\r\n" + "x" * 1_000) for number in range(3_000)))

    read_job(await post(store, files={"file": ("rows.jsonl", content)}), 202)

    assert len(content) > 3 * 1_048_576
    assert store.contents == [content]


# --- what is refused


def form(*parts: tuple[str, str], end: str = "--", boundary: str = "b") -> dict[str, Any]:
    """A form with parts of these headers and contents."""
    body = "".join(f"--{boundary}\r\n{headers}\r\n\r\n{content}\r\n" for headers, content in parts)
    return {
        "content": f"{body}--{boundary}{end}\r\n".encode(),
        "headers": {"content-type": f"multipart/form-data; boundary={boundary}"},
    }


def cut(whole: dict[str, Any]) -> dict[str, Any]:
    """The form without its last boundary."""
    return {**whole, "content": whole["content"][:-7]}


NAMED = 'Content-Disposition: form-data; name="file"; filename="r.jsonl"'
UNNAMED = 'Content-Disposition: form-data; name="file"'


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        *((form(*parts), *said) for parts, *said in load_cases("jobs_upload", "forms")),
        *load_cases("jobs_upload", "requests", inner=list),
        (
            form((NAMED, "{}"), ('Content-Disposition: form-data; name="choices"', "[" * 100_001)),
            400,
            "Part exceeded maximum size",
        ),
        (cut(form((NAMED, "{}"))), 400, "ends before its last boundary"),
        (form((NAMED + "\r\nX-A: " + "a" * 5_000, "{}")), 400, "the form cannot be read"),
        (form((NAMED, "{}"), boundary="b" * 300), 400, "cannot be read"),
    ],
)
async def test_a_body_that_is_none_of_the_forms_leaves_nothing(
    request_: dict[str, Any], status: int, said: str
) -> None:
    store = KeepingStore()

    problem = read_problem(await post(store, **request_), status)

    assert said in problem.detail
    assert (store.taken, store.left_over) == ([], [])


WRONG_CHOICES: list[tuple[Any, str, str]] = load_cases("jobs_upload", "wrong_choices")


@pytest.mark.parametrize(("choices", "pointer", "said"), WRONG_CHOICES)
async def test_a_wrong_choice_is_named_in_each_form(choices: dict[str, Any], pointer: str, said: str) -> None:
    store = KeepingStore()

    in_body = read_problem(await post(store, json={"rows": [1], **choices}), 422)
    in_part = read_problem(await post(store, files={"file": FILE, "choices": (None, json.dumps(choices))}), 422)

    problems = [each.errors[0] for each in (in_body, in_part)]
    assert [each.pointer for each in problems] == [pointer, f"/choices{pointer}"]
    assert [said in each.detail for each in problems] == [True] * 2
    assert {each.type for each in (in_body, in_part)} == {"urn:plumbline:problem:validation"}
    assert (store.taken, store.left_over) == ([], [])


async def test_a_judge_that_there_is_not_is_named_in_each_form() -> None:
    store, choices = KeepingStore(), {"options": {"judges": ["nobody"]}}

    in_body = read_problem(await post(store, json={"rows": [1], **choices}), 422)
    in_part = read_problem(await post(store, files={"file": FILE, "choices": (None, json.dumps(choices))}), 422)

    places = [each.detail.partition(": ")[0] for each in (in_body, in_part)]
    assert places == ["/options/judges", "/choices/options/judges"]
    assert "no judge is named 'nobody'" in in_part.detail
    assert store.left_over == []


@pytest.mark.parametrize("text", ["{", "[1]", "é{", "[" * 5_000, "3"])
async def test_choices_that_are_no_json_object_are_refused(text: str) -> None:
    store = KeepingStore()

    in_part = read_problem(await post(store, files={"file": FILE, "choices": (None, text)}), 422)

    assert "choices" in in_part.model_dump_json()
    assert (store.taken, store.left_over) == ([], [])


@pytest.mark.parametrize("body", [{"rows": []}, {"rows": {}}, {}, [], {"rows": [1], "row": 1}])
async def test_a_json_body_has_rows(body: Any) -> None:
    problem = read_problem(await post(KeepingStore(), json=body), 422)

    assert [each.pointer for each in problem.errors] == ["/row" if "row" in body else "/rows" if body != [] else ""]


async def test_a_large_json_body_is_told_how_to_send_more() -> None:
    store, settings = KeepingStore(), plain_settings(max_batch_body_bytes=2_000)

    refused = await post(store, settings, json={"rows": ["a" * 2_000]})
    taken = await post_file(store, lines(row("a", "a" * 4_000)), settings=settings)

    assert "send more rows as a file in multipart/form-data" in read_problem(refused, 413).detail
    read_job(taken, 202)


async def test_a_body_beyond_the_limit_of_jobs_is_refused_and_leaves_nothing() -> None:
    store, settings = KeepingStore(), plain_settings(max_job_body_bytes=3_000_000)

    async def endless() -> AsyncIterator[bytes]:
        yield HEAD
        for _ in range(40):
            yield b"a" * 100_000

    headers = {"content-type": "multipart/form-data; boundary=b"}
    unstated = await post(store, settings, content=endless(), headers=headers)
    stated = await post(store, settings, content=b"a" * 3_000_001, headers=headers)

    for refused in (unstated, stated):
        assert "3000000 bytes" in read_problem(refused, 413).detail
        assert refused.headers["connection"] == "close"
    assert (store.taken, store.left_over) == ([], [])


# --- callers who leave, disks that are full


async def test_a_cut_upload_leaves_no_job_and_no_file() -> None:
    store = KeepingStore()
    app = app_with(store)
    for content_type, piece in ((FORM, HEAD + FILE[1] * 20_000), (FORM, b"--b\r\n")):
        left = asyncio.Event()
        messages = iter([{"type": "http.request", "body": piece, "more_body": True}, {"type": "http.disconnect"}])
        answers: list[Any] = []

        async def receive(messages: Any = messages) -> Any:
            return next(messages)

        async def send(message: Any, answers: list[Any] = answers) -> None:
            answers.append(message)

        async with app.router.lifespan_context(app):
            await app(scope_of(JOBS_URL, "POST", content_type=content_type), receive, send)
            left.set()

        assert answers == []
    assert (store.taken, store.left_over) == ([], [])


async def test_an_upload_that_is_cancelled_leaves_no_file() -> None:
    store = KeepingStore()
    app = app_with(store)
    waiting = asyncio.Event()
    answers: list[Any] = []
    begun = iter([{"type": "http.request", "body": HEAD + FILE[1] * 20_000, "more_body": True}])

    async def receive() -> Any:
        for message in begun:
            return message
        waiting.set()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        answers.append(message)

    async with app.router.lifespan_context(app):
        task = asyncio.create_task(app(scope_of(JOBS_URL, "POST", content_type=FORM), receive, send))
        await waiting.wait()
        kept_meanwhile = store.left_over
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert answers[0]["status"] == 503
    assert len(kept_meanwhile) == 1
    assert (store.taken, store.left_over) == ([], [])


async def test_a_store_that_cannot_keep_the_job_leaves_no_file() -> None:
    store = KeepingStore(fails=True)

    response = await post_file(store, FILE[1])

    read_problem(response, 503)
    assert response.headers["retry-after"]
    assert len(store.taken) == 1
    assert store.left_over == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_full_disk_is_a_problem_and_leaves_no_file(size: int) -> None:
    class Full(KeepingStore):
        def new_upload(self) -> Path:
            path = super().new_upload()
            # a link: the device itself is not to be removed
            path.symlink_to("/dev/full")
            return path

    store = Full()

    problem = read_problem(await post_file(store, b"a" * size), 503)

    assert "No space left on device" in problem.detail
    assert (store.taken, store.left_over) == ([], [])


# --- idempotency


async def test_the_same_key_with_the_same_request_is_the_same_job() -> None:
    store = KeepingStore()
    async with jobs_running(store) as client:

        async def post_again(body: Any, key: str) -> httpx2.Response:
            return await client.post(JOBS_URL, json=body, headers={"Idempotency-Key": key})

        body = {"rows": [row("a")], "name": "n"}
        first, again, other_key = [await post_again(body, key) for key in ("k-1", "k-1", "k-2")]
        other_rows = await post_again({**body, "rows": [row("b")]}, "k-1")
        other_choices = await post_again({**body, "name": "m"}, "k-1")

    ids = [read_job(each, 202)["id"] for each in (first, again, other_key)]
    assert ids[0] == ids[1] != ids[2]
    assert [each.headers.get("idempotency-replayed") for each in (first, again, other_key)] == [None, "true", None]
    assert first.headers["location"] == again.headers["location"]
    for refused in (other_rows, other_choices):
        assert read_problem(refused, 422).type == "urn:plumbline:problem:idempotency-key-reused"
    assert store.left_over == []


@pytest.mark.parametrize("key", ["", "a b", "a" * 201, "é", "a\tb"])
async def test_a_key_of_another_form_is_refused(key: str) -> None:
    store = KeepingStore()

    headers = [(b"idempotency-key", key.encode("latin-1"))]
    problem = read_problem(await post(store, json={"rows": [row("a")]}, headers=headers), 422)

    assert "header parameter 'Idempotency-Key'" in problem.errors[0].detail
    assert store.taken == []
