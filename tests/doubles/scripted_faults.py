"""What a scripted judge does below HTTP: late, slow, cut, reset and malformed answers."""

from dataclasses import dataclass

from tests.doubles.scripted_replies import (
    FILLER,
    JSON_TYPE,
    RecordedRequest,
    Reply,
    Scripted,
    Step,
    Wire,
    around_filler,
    resolve,
)


def delayed(step: Scripted, seconds: float) -> Step:
    """Any step, later."""
    return _Delayed(step, seconds)


def reset() -> Step:
    """A RST in place of an answer."""
    return _Reset()


def reset_mid_body(reply: Reply, after_bytes: int) -> Step:
    """The head with its full content-length, `after_bytes` of the body, then a RST."""
    return _CutBody(reply, after_bytes, is_reset=True)


def close_mid_body(reply: Reply, after_bytes: int) -> Step:
    """The head with its full content-length, `after_bytes` of the body, then an orderly close."""
    return _CutBody(reply, after_bytes, is_reset=False)


def hang() -> Step:
    """Reads the request and never answers."""
    return _Hang()


def headers_then_stall(reply: Reply) -> Step:
    """The head, and never the body."""
    return _Stall(reply)


def trickle(reply: Reply, bytes_per_second: float = 1.0) -> Step:
    """The head at once, then the body byte by byte: no single read is slow, the whole is."""
    return _Trickle(reply, bytes_per_second)


def bad_chunked() -> Step:
    """A chunked body whose first chunk size is not a number."""
    head = Reply(200, b"", {"content-type": JSON_TYPE, "transfer-encoding": "chunked"}).head()
    return _Verbatim(head + b'zz\r\n{"id"\r\n0\r\n\r\n')


def huge(byte_count: int, *, declares_length: bool = True) -> Step:
    """A well-formed completion of `byte_count` bytes of body, mostly spaces, made while it is sent.

    Args:
        declares_length: with `content-length`; else chunked, so that the client cannot know beforehand.
    """
    return _Huge(byte_count, declares_length)


def half_close(reply: Reply | None = None) -> Step:
    """A FIN after the reply (or in place of one) while the judge goes on reading: a pooled connection gone stale."""
    return _HalfClose(reply)


@dataclass(frozen=True, slots=True)
class _Delayed(Step):
    step: Scripted
    seconds: float

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.wait(self.seconds)
        await resolve(self.step, request).play(wire, request)


@dataclass(frozen=True, slots=True)
class _Reset(Step):
    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        wire.reset()


@dataclass(frozen=True, slots=True)
class _CutBody(Step):
    reply: Reply
    after_bytes: int
    is_reset: bool

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.wait(self.reply.delay_seconds)
        await wire.send(self.reply.head() + self.reply.body[: self.after_bytes])
        if self.is_reset:
            wire.reset()
        else:
            wire.close()


@dataclass(frozen=True, slots=True)
class _Hang(Step):
    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.wait(None)


@dataclass(frozen=True, slots=True)
class _Stall(Step):
    reply: Reply

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.wait(self.reply.delay_seconds)
        await wire.send(self.reply.head())
        await wire.wait(None)


@dataclass(frozen=True, slots=True)
class _Trickle(Step):
    reply: Reply
    bytes_per_second: float

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.wait(self.reply.delay_seconds)
        await wire.send(self.reply.head())
        for index in range(len(self.reply.body)):
            await wire.wait(1.0 / self.bytes_per_second)
            if index == len(self.reply.body) - 1:
                wire.count_tokens(self.reply.tokens)
            await wire.send(self.reply.body[index : index + 1])


@dataclass(frozen=True, slots=True)
class _Verbatim(Step):
    data: bytes

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        await wire.send(self.data)
        wire.close()


@dataclass(frozen=True, slots=True)
class _Huge(Step):
    byte_count: int
    declares_length: bool

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        before, after = around_filler()
        filler_count = max(0, self.byte_count - len(before) - len(after))
        length = len(before) + filler_count + len(after)
        framing = {"content-length": str(length)} if self.declares_length else {"transfer-encoding": "chunked"}
        await wire.send(Reply(200, b"", {"content-type": JSON_TYPE, **framing}).head())
        await wire.send(self._framed(before))
        for start in range(0, filler_count, len(FILLER)):
            await wire.send(self._framed(FILLER[: filler_count - start]))
        await wire.send(self._framed(after) + (b"" if self.declares_length else b"0\r\n\r\n"))

    def _framed(self, data: bytes) -> bytes:
        return data if self.declares_length else b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(frozen=True, slots=True)
class _HalfClose(Step):
    reply: Reply | None

    async def play(self, wire: Wire, request: RecordedRequest) -> None:
        if self.reply is not None:
            await self.reply.play(wire, request)
        wire.half_close()
