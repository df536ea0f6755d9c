"""What a scripted judge answers in whole HTTP messages, right or wrong. What breaks below: `scripted_faults`."""

import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from tests.doubles.request_ids import with_request_ids

DEFAULT_MODEL = "scripted-judge"
JSON_TYPE = "application/json"
FILLER = b" " * 65_536


class TokenCount(NamedTuple):
    """Tokens as a reply's `usage` field states them."""

    prompt: int = 0
    completion: int = 0


_NO_TOKENS = TokenCount()


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it came off the wire; header names are lower case, `json` is None where the body is not JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    json: Any
    arrived_seconds: float

    @property
    def prompt(self) -> str:
        """The text of all messages of a chat request, one after another; empty for any other body."""
        messages = self.json.get("messages", []) if isinstance(self.json, dict) else []
        return "\n".join(_text_of(message.get("content")) for message in messages)


class Wire(Protocol):
    """What a step may do to the connection that it answers on."""

    async def send(self, data: bytes) -> None:
        """Hands the bytes to the kernel before it returns."""

    async def wait(self, seconds: float | None) -> None:
        """Lets time pass (None: for ever).

        Raises:
            ConnectionAbortedError: the client went away meanwhile.
        """

    def close(self) -> None:
        """Ends the connection with a FIN."""

    def half_close(self) -> None:
        """Sends a FIN, and goes on reading."""

    def reset(self) -> None:
        """Ends the connection with a RST."""

    def count_tokens(self, tokens: TokenCount) -> None:
        """Adds to what the judge has served."""


class Step(ABC):
    """One answer of the script."""

    @abstractmethod
    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        """Answers the request; leaves the wire open where the client may send the next one."""


Scripted = Step | Callable[[RecordedRequest], Step]


@dataclass(frozen=True, slots=True)
class Reply(Step):
    """A complete HTTP answer; the faults that spoil an answer are wrapped around one.

    `keeps_ids`: ids go out as they are; else those that count from 1 become the ids of the request.
    """

    status_code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens: TokenCount = _NO_TOKENS
    delay_seconds: float = 0.0
    keeps_ids: bool = False

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.wait(self.delay_seconds)
        wire.count_tokens(self.tokens)
        reply = self.to(request)
        await wire.send(reply.head() + reply.body)

    def to(self, request: RecordedRequest) -> "Reply":
        """The same answer with the ids of the request in its content, where the script counts from 1."""
        if self.keeps_ids:
            return self
        try:
            payload = json.loads(self.body)
            message = payload["choices"][0]["message"]
            content = with_request_ids(message["content"], request.prompt)
        except (ValueError, LookupError, TypeError, RecursionError):
            return self
        if content == message["content"]:
            return self
        message["content"] = content
        return replace(self, body=json.dumps(payload).encode())

    def head(self) -> bytes:
        """Status line and headers, `content-length` among them unless another framing was asked for."""
        names = {name.lower() for name in self.headers}
        framing = {} if names & {"content-length", "transfer-encoding"} else {"content-length": str(len(self.body))}
        lines = [f"HTTP/1.1 {self.status_code} {_phrase(self.status_code)}"]
        lines += [f"{name}: {value}" for name, value in {**self.headers, **framing}.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def completion(
    content: str | None,
    *,
    finish_reason: str = "stop",
    refusal: str | None = None,
    usage: tuple[int, int] | None = (11, 7),
    model: str | None = None,
    delay_seconds: float = 0.0,
) -> Reply:
    """A well-formed chat completion with one choice; `usage=None` leaves the field out, as some vendors do."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    tokens = TokenCount(*usage) if usage is not None else _NO_TOKENS
    payload = completion_payload([choice], tokens=tokens if usage is not None else None, model=model)
    return replace(status(HTTPStatus.OK, payload), tokens=tokens, delay_seconds=delay_seconds)


def completion_payload(
    choices: list[dict[str, Any]], *, tokens: TokenCount | None = None, model: str | None = None
) -> dict[str, Any]:
    """The JSON object of a chat completion, for replies that bend it: `status(200, completion_payload([]))`."""
    payload: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model or DEFAULT_MODEL,
        "choices": choices,
    }
    if tokens is not None:
        counts = {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion, "total_tokens": sum(tokens)}
        payload["usage"] = counts
    return payload


def status(code: int, body: object = b"", *, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer with any status: bytes go out as they are, text as UTF-8, anything else as JSON."""
    if isinstance(body, bytes):
        return raw_body(body, "application/octet-stream", status=code, headers=headers)
    if isinstance(body, str):
        return raw_body(body.encode(), "text/plain; charset=utf-8", status=code, headers=headers)
    return raw_body(json.dumps(body).encode(), JSON_TYPE, status=code, headers=headers)


def openai_error(
    code: int, error_code: str | None, message: str = "scripted error", *, headers: Mapping[str, str] | None = None
) -> Reply:
    """An error in OpenAI's shape; `error_code` is the field that tells `insufficient_quota` from `rate_limit…`."""
    error = {"message": message, "type": "scripted", "param": None, "code": error_code}
    return status(code, {"error": error}, headers=headers)


def raw_body(
    body: bytes, content_type: str = JSON_TYPE, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Reply:
    """An answer with exactly these bytes."""
    return Reply(status, body, {"content-type": content_type, **(headers or {})})


def wrong_content_type(reply: Reply, content_type: str = "text/plain") -> Reply:
    """The same answer under another content type."""
    return replace(reply, headers={**reply.headers, "content-type": content_type})


def html_error_page(code: int) -> Reply:
    """The page of a proxy in front of the judge."""
    page = f"<html><head><title>{code} {_phrase(code)}</title></head><body><h1>nginx</h1></body></html>"
    return raw_body(page.encode(), "text/html", status=code)


def redirect(url: str, *, status: int = 307) -> Reply:
    """Sends the client elsewhere; 307 keeps method and body, 302 makes most clients send a GET."""
    return raw_body(b"", "text/plain", status=status, headers={"location": url})


def gzip_bomb(byte_count: int) -> Reply:
    """A well-formed completion, gzipped: about a thousandth of `byte_count` on the wire, `byte_count` when inflated."""
    before, after = around_filler()
    blocks, rest = divmod(byte_count - len(before) - len(after), len(FILLER))
    # one block of deflate (RFC 1951) again and again: compressing each takes a second for a few hundred megabytes
    deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    head = deflate.compress(before) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(FILLER) + deflate.flush(zlib.Z_FULL_FLUSH)
    tail = deflate.compress(FILLER[:rest] + after) + deflate.flush()
    checksum = zlib.crc32(before)
    for _ in range(blocks):
        checksum = zlib.crc32(FILLER, checksum)
    checksum = zlib.crc32(FILLER[:rest] + after, checksum)
    # the head and the trailer of a gzip member, RFC 1952
    trailer = struct.pack("<II", checksum, byte_count % 2**32)
    packed = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + head + block * blocks + tail + trailer
    return raw_body(packed, headers={"content-encoding": "gzip"})


def resolve(step: Scripted, request: RecordedRequest) -> Step:
    """The step itself, or the one that a callable makes of the request."""
    return step if isinstance(step, Step) else step(request)


def around_filler() -> tuple[bytes, bytes]:
    """What goes before and after the content of a completion, for bodies that are made rather than kept."""
    before, after = completion("\0").body.split(json.dumps("\0")[1:-1].encode())
    return before, after


def _phrase(code: int) -> str:
    return HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "Unknown"


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")
