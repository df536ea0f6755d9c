"""Requests that no honest client sends, byte by byte, each with the answers that are right."""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

# The end of a connection without an answer.
CUT: Final = 0
# The service's own default.
BODY_SECONDS: Final = 15.0
# Longer than a body may take.
_DRIPS, _DRIP_SECONDS = 40, 0.5
_EVALUATIONS, _JOBS, _RETRIEVAL = "/v1/evaluations", "/v1/jobs", "/v1/retrieval/evaluations"
_SAMPLE: Final = {"contexts": ["The Marlow Bridge was opened in 1931."], "answer": "It was opened in 1931."}
_LEXICAL: Final = json.dumps({**_SAMPLE, "tiers": ["lexical"]}).encode()
_HELLO: Final = bytes.fromhex("1603010200010001fc0303") + bytes(range(256)) * 2


@dataclass(frozen=True, slots=True)
class Keys:
    """Secrets as they are sent: one for everything, one that may evaluate alone, and those that open nothing."""

    good: str
    evaluator: str
    revoked: str


@dataclass(frozen=True, slots=True)
class Attack:
    """What is sent, and what may come back.

    Args:
        statuses: right ones; `CUT` where the connection may end without an answer.
        is_ours: whether a refusal is a problem of ours; broken HTTP is refused by uvicorn, in plain text.
        pause: seconds between the pieces.
        leaves_after: bytes of the answer after which the connection is reset; None: it is read to its end.
        answers: so many come.
    """

    name: str
    pieces: tuple[bytes, ...]
    statuses: frozenset[int]
    is_ours: bool = True
    pause: float = 0.0
    leaves_after: int | None = None
    answers: int = 1


def attacks(keys: Keys) -> list[Attack]:
    """All of them."""
    return [*_bodies(keys), *_codings(keys), *_forms(keys), *_callers(keys), *_paths(keys), *_broken_http(keys)]


def request(
    method: str, path: str, key: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """A sound request; headers given stand in place of its own, those of the value "" are left out."""
    mine = {"Host": "127.0.0.1", "Authorization": f"Bearer {key}", "Connection": "close"}
    if body is not None:
        mine |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**mine, **(headers or {})}.items() if value]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + (body or b"")


def _bodies(keys: Keys) -> list[Attack]:
    def post(name: str, status: int, body: bytes, **headers: str) -> Attack:
        named = {each.replace("_", "-"): value for each, value in headers.items()}
        return _attack(name, status, request("POST", _EVALUATIONS, keys.good, body, named))

    def wrong(name: str, status: int, **fields: object) -> Attack:
        return post(name, status, json.dumps({**_SAMPLE, **fields}).encode())

    chunked = request("POST", _EVALUATIONS, keys.good, b"", {"Content-Length": "", "Transfer-Encoding": "chunked"})
    megabyte = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = request("POST", _EVALUATIONS, keys.good, b"", {"Content-Length": "500"})
    lines = json.dumps({"samples": [{**_SAMPLE, "custom_id": str(n)} for n in range(200)], "format": "ndjson"}).encode()
    batch = request("POST", f"{_EVALUATIONS}/batch", keys.good, lines)
    upload = request("POST", _JOBS, keys.good, b"", {"Content-Type": "application/x-ndjson", "Content-Length": "9999"})
    return [
        post("too large by its Content-Length", 413, b"{", Content_Length="5000000"),
        _attack("too large in chunks", 413, chunked, *[megabyte] * 5, b"0\r\n\r\n"),
        post("Content-Length too short", 400, _LEXICAL, Content_Length="10"),
        _attack("Content-Length too long", 408, head + _LEXICAL),
        Attack("a body that drips", (head, *[b" "] * _DRIPS), frozenset({408}), pause=_DRIP_SECONDS),
        Attack("rows that drip", (upload, *[b" "] * _DRIPS), frozenset({408}), pause=_DRIP_SECONDS),
        Attack("left amid the body", (head + _LEXICAL,), frozenset({CUT}), leaves_after=0),
        Attack("left amid rows of a job", (upload + _LEXICAL,), frozenset({CUT}), leaves_after=0),
        Attack(
            "left before the answer",
            (request("POST", _EVALUATIONS, keys.good, _LEXICAL),),
            frozenset({CUT}),
            leaves_after=0,
        ),
        Attack("left amid the answer", (batch,), frozenset({200}), leaves_after=300),
        post("no body", 400, b""),
        post("not UTF-8", 400, b'{"answer": "\xff"}'),
        post("UTF-16", 400, json.dumps(_SAMPLE).encode("utf-16")),
        post("100,000 brackets", 400, b"[" * 100_000),
        post("100,000 objects deep", 400, b'{"a":' * 100_000),
        post("a million empty lists", 400, b"[" + b"[]," * 1_000_000 + b"[]]"),
        post("a key twice", 422, _LEXICAL[:-1] + b', "answer": "another"}'),
        post("NaN", 422, _LEXICAL[:-1] + b', "threshold": NaN}'),
        post("Infinity", 422, _LEXICAL[:-1] + b', "threshold": -Infinity}'),
        post("1e999", 422, _LEXICAL[:-1] + b', "threshold": 1e999}'),
        post("a number of 5,000 digits", 400, _LEXICAL[:-1] + b', "threshold": ' + b"9" * 5_000 + b"}"),
        wrong("a surrogate", 422, answer="\ud800"),
        wrong("NUL in a text", 422, answer="a\0b"),
        wrong("an unknown field", 422, colour="red"),
        wrong("__proto__", 422, __proto__={"admin": True}),
        wrong("wrong types", 422, contexts={"0": "a"}, answer=[1]),
        wrong("10,000 contexts", 422, contexts=["a"] * 10_000),
        wrong("an unknown tier", 422, tiers=["oracle"]),
        wrong("a deadline below zero", 422, deadline_seconds=-1),
        post("text/plain", 415, _LEXICAL, Content_Type="text/plain"),
        post("no type", 415, _LEXICAL, Content_Type=""),
        post("latin-1", 415, _LEXICAL, Content_Type="application/json; charset=latin-1"),
        post("a form as JSON", 415, b"a=b", Content_Type="application/x-www-form-urlencoded"),
        _attack(
            "Expect and too large",
            413,
            request("POST", _EVALUATIONS, keys.good, None, {"Content-Length": "9999999", "Expect": "100-continue"}),
        ),
    ]


def _codings(keys: Keys) -> list[Attack]:
    def post(name: str, status: int, body: bytes, *, coding: str = "gzip", path: str = _EVALUATIONS) -> Attack:
        kind = "application/x-ndjson" if path == _JOBS else "application/json"
        headers = {"Content-Encoding": coding, "Content-Type": kind}
        return _attack(name, status, request("POST", path, keys.good, body, headers))

    bomb, good = _zeros(10) * 100, gzip.compress(_LEXICAL)
    return [
        post("a gzip bomb of 1 GB", 413, bomb),
        post("a gzip bomb as rows", 413, bomb, path=_JOBS),
        post("a gzip bomb as qrels", 413, bomb, path=_RETRIEVAL),
        post("gzip in gzip", 400, gzip.compress(good)),
        post("gzip cut off", 400, good[:-6]),
        post("rows as gzip, cut off", 400, good[:-6], path=_JOBS),
        post("gzip and more behind", 400, good + b"more"),
        # Others get their turn between the members, so a busy service may not come to the last one in time.
        replace(post("70,000 gzip members", 400, gzip.compress(b"") * 70_000), statuses=frozenset({400, 408})),
        post("no gzip at all", 400, _LEXICAL),
        *(
            post(f"coding {coding}", 415, good, coding=coding)
            for coding in ("br", "zstd", "deflate", "gzip, gzip", "*")
        ),
    ]


def _forms(keys: Keys) -> list[Attack]:
    def form(name: str, path: str, status: int, body: bytes, boundary: str = "b") -> Attack:
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return _attack(name, status, request("POST", path, keys.good, body, kind))

    def part(name: str, content: bytes, file: str = "a.txt") -> bytes:
        head = f'--b\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n\r\n'
        return head.encode() + content + b"\r\n"

    end = b"--b--\r\n"
    qrels, run = part("qrels", b"q1 0 d1 1\n"), part("run", b"q1 Q0 d1 1 0.5 r\n")
    found = []
    # A form that is cut off has no files for retrieval; for a job it may lack rows.
    for path, cut in ((_JOBS, 400), (_RETRIEVAL, 422)):
        found += [
            form(f"another boundary, {path}", path, 400, qrels + end, "other"),
            form(f"a form without an end, {path}", path, cut, part("file", b"{}")[:-2]),
            form(f"a part's head of 100 KB, {path}", path, 400, part("a" * 100_000, b"") + end),
        ]
    return [
        *found,
        form("a thousand parts of a job", _JOBS, 422, part("x", b"1") * 1_000 + end),
        form("a thousand runs", _RETRIEVAL, 400, qrels + run * 1_000 + end),
        form("TREC with a broken line", _RETRIEVAL, 422, qrels + part("run", b"q1 Q0 d1\n") + end),
        form("TREC with a bomb", _RETRIEVAL, 422, qrels + part("run", _zeros(10) * 50, "a.gz") + end),
        form("a file name that climbs", _JOBS, 422, part("file", b"{}", "../../../etc/passwd") + end),
    ]


def _callers(keys: Keys) -> list[Attack]:
    asked = [
        ("no key", "POST", _EVALUATIONS, "", 401),
        ("a wrong key", "POST", _EVALUATIONS, "pl_" + "x" * 40, 401),
        ("a key of 10 KB", "POST", _EVALUATIONS, "x" * 10_000, 401),
        ("a revoked key", "POST", _EVALUATIONS, keys.revoked, 401),
        ("jobs with a key to evaluate", "POST", _JOBS, keys.evaluator, 403),
        ("metrics with a key to evaluate", "GET", "/metrics", keys.evaluator, 403),
    ]
    return [
        _attack(name, status, request(method, path, key, _LEXICAL if method == "POST" else None))
        for name, method, path, key, status in asked
    ] + [
        # Nothing of a body is read before the key is.
        _attack("no key and too large", 401, request("POST", _EVALUATIONS, "", b" " * 3_000_000)),
    ]


def _paths(keys: Keys) -> list[Attack]:
    def ask(method: str, path: str, status: int, **headers: str) -> Attack:
        named = {each.replace("_", "-"): value for each, value in headers.items()}
        return _attack(
            f"{method} {path[:60]} {' '.join(headers)}".strip(), status, request(method, path, keys.good, None, named)
        )

    docs = "/static-offline-docs"
    return [
        *(
            ask("GET", f"{_JOBS}/{name}", 404)
            for name in ("nobodys", "%00", "%ff", "..%2f..%2fetc%2fpasswd", "x" * 9_000)
        ),
        *(ask("GET", f"{_JOBS}/nobodys/{part}", 404) for part in ("results", "report", "events", "%2e%2e", "nothing")),
        *(ask("POST", f"{_JOBS}/nobodys/{part}", 404) for part in ("cancel", "pause", "resume")),
        ask("DELETE", f"{_JOBS}/nobodys", 404),
        *(
            ask("GET", f"{docs}/{path}", 404)
            for path in ("../../etc/passwd", "..%2f..%2fetc/passwd", "%00", "%ff", "a" * 5_000)
        ),
        ask("GET", "/../../../etc/passwd", 404),
        ask("GET", "//evil.example/healthz", 404),
        ask("GET", "/%00", 404),
        ask("GET", f"{_JOBS}?limit=0", 422),
        ask("GET", f"{_JOBS}?limit={'9' * 4_000}", 422),
        ask("GET", f"{_JOBS}?limit=1&limit=2&colour=red", 422),
        *(ask(method, _EVALUATIONS, 405) for method in ("GET", "PUT", "DELETE", "PATCH", "BREW", "TRACE", "OPTIONS")),
        ask("POST", "/healthz", 405),
        ask("POST", f"{_JOBS}/nobodys/cancel", 400, Origin="https://evil.example", Sec_Fetch_Site="cross-site"),
    ]


def _broken_http(keys: Keys) -> list[Attack]:
    def broken(name: str, *pieces: bytes, status: int = 400) -> Attack:
        return Attack(name, pieces, frozenset({status}), is_ours=False)

    def health(*lines: str, version: str = "1.1") -> bytes:
        return "\r\n".join([f"GET /healthz HTTP/{version}", *lines, "", ""]).encode("latin-1")

    def smuggled(*lines: str, body: bytes = b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") -> bytes:
        key = f"Authorization: Bearer {keys.good}"
        head = [f"POST {_EVALUATIONS} HTTP/1.1", "Host: a", key, "Content-Type: application/json", *lines, "", ""]
        return "\r\n".join(head).encode() + body

    def long(name: str, head: bytes, status: int) -> Attack:
        # uvicorn takes a head that is there at once, and refuses one of more than 16 KiB that is not.
        return Attack(name, (head,), frozenset({status, 400}), is_ours=False)

    host, closing = "Host: a", "Connection: close"
    return [
        broken("a header with NUL", health(host, "X-A: a\0b")),
        broken("a header with CR alone", health(host, "X-A: a\rSet-Cookie: b=c")),
        broken("a header without a name", health(host, ": a")),
        broken("a space before the colon", health(host, "X-A : a")),
        broken("a header folded first", health(" folded", host)),
        long("100 KB of one header", health(host, closing, "X-A: " + "a" * 100_000), 200),
        long("10,000 headers", health(host, closing, *["X-A: a"] * 10_000), 200),
        long("a path of 100 KB", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        broken("no Host", health()),
        broken("two Hosts", health(host, "Host: b")),
        broken("HTTP/0.9", b"GET /healthz\r\n\r\n"),
        broken("TLS", _HELLO),
        broken("random bytes", bytes(range(256)) * 8),
        broken("a chunk that is none", smuggled("Transfer-Encoding: chunked", body=b"zz\r\nno\r\n")),
        broken("a chunk longer than can be", smuggled("Transfer-Encoding: chunked", body=b"f" * 40 + b"\r\n")),
        broken("two Content-Lengths", smuggled("Content-Length: 5", "Content-Length: 6")),
        broken("a Content-Length of 5,000 digits", smuggled(f"Content-Length: {'9' * 5_000}")),
        broken("a Content-Length with a sign", smuggled("Content-Length: +5")),
        broken("chunked in disguise", smuggled("Transfer-Encoding: xchunked")),
        broken("chunked twice", smuggled("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")),
        broken("chunked, then not", smuggled("Transfer-Encoding: chunked, identity")),
        _attack("Content-Length and chunked", 400, smuggled("Content-Length: 5", "Transfer-Encoding: chunked")),
        _attack("chunked and Content-Length", 400, smuggled("Transfer-Encoding: chunked", "Content-Length: 5")),
        _attack(
            "chunked and Content-Length of GET",
            400,
            health(host, "Transfer-Encoding: chunked", "Content-Length: 5") + b"0\r\n\r\n",
        ),
        _attack(
            "an injected request id", 200, health(host, "Connection: close", "X-Request-ID: a%0d%0aSet-Cookie:b=c")
        ),
        _attack("bare LF", 200, b"GET /healthz HTTP/1.1\nHost: a\nConnection: close\n\n"),
        _attack("HTTP/1.0", 200, health(version="1.0")),
        _attack("an upgrade to HTTP/2", 200, health(host, "Connection: Upgrade, close", "Upgrade: h2c")),
        Attack("three in one piece", (health(host) * 3,), frozenset({200}), answers=3),
        Attack("a good one, then nonsense", (health(host), b"\x00\x01\x02\r\n\r\n"), frozenset({200})),
        Attack("left amid the head", (health(host)[:-9],), frozenset({CUT}), leaves_after=0),
        Attack("a connection and nothing", (), frozenset({CUT}), leaves_after=0),
    ]


def _attack(name: str, status: int, *pieces: bytes) -> Attack:
    return Attack(name, pieces, frozenset({status}))


def _zeros(megabytes: int) -> bytes:
    """A thousandth of what it expands to."""
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join(deflate.compress(bytes(1_000_000)) for _ in range(megabytes)) + deflate.flush()
