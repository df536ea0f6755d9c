"""Store of verdicts in SQLite, bounded in bytes: in memory, or in a file that the processes of a machine may share."""

import asyncio
import sqlite3
import time
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec.inspect import type_info

from plumbline.ground.concurrency import Rest, Threads
from plumbline.ground.texts import CodedText, encode_fields, parse_text
from plumbline.judging.text.verdicts import Judgement

# "PLV3": files of 0.2 have another one, and another table.
_APPLICATION_ID: Final = 0x504C5633
# Another process's write takes less than a millisecond, a checkpoint some tens.
_BUSY_SECONDS: Final = 0.5
# Beyond so long a sample does better without the store.
_SECONDS: Final = 1.0
# Share of the bytes that entries may fill; the rest is room for pages that are half empty.
_FILLED: Final = 0.9
_TABLE: Final = f"""
PRAGMA journal_mode = WAL;
PRAGMA journal_size_limit = {2**22};
PRAGMA synchronous = NORMAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS verdict (key TEXT PRIMARY KEY, stored REAL NOT NULL, value BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS verdict_stored ON verdict (stored);
PRAGMA application_id = {_APPLICATION_ID};
COMMIT;
"""
_MARKS: Final = "SELECT (SELECT count(*) FROM sqlite_master), application_id FROM pragma_application_id"
_GET: Final = "SELECT value FROM verdict WHERE key = ? AND stored > ?"
_PAGES: Final = "SELECT (page_count - freelist_count) * 4096 FROM pragma_page_count, pragma_freelist_count"
_DELETE_OLDEST: Final = "DELETE FROM verdict WHERE key IN (SELECT key FROM verdict ORDER BY stored LIMIT 8)"


class SqliteVerdictStore:
    """A `VerdictStore` in memory, or in a file with mode 0600, since it holds quotes of contexts; opened at first use.

    Of more than `max_bytes` the oldest entries go first. A failure is a miss: it is logged once, and the file is left
    alone for some seconds. A file that is damaged or another program's is left as it is. Judgements are read and
    written in a thread of the store, which takes a long one some milliseconds.
    """

    def __init__(
        self, path: Path | None, *, max_bytes: int, ttl_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._thread = Threads(max_workers=1, thread_name_prefix="verdicts")
        self._file: sqlite3.Connection | None = None
        self._reading, self._writing = Rest(), Rest()
        self._is_closed = self._has_failed = False

    async def get(self, key: str) -> Judgement | None:
        values = (_SHAPE + key, self._clock() - self._ttl_seconds)

        def read(file: sqlite3.Connection) -> Judgement | None:
            found = file.execute(_GET, values).fetchone()
            return judgement_from_record(found[0]) if found else None

        judgement: Judgement | None = await self._run(self._reading, read)
        return judgement

    async def put(self, key: str, judgement: Judgement) -> None:
        """Store the judgement if possible; one of more than a quarter of `max_bytes` is not stored."""
        await self._run(self._writing, lambda file: self._put(file, _SHAPE + key, judgement))

    async def close(self) -> None:
        """Wait for pending writes and close the file; from now on every entry is a miss."""
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown)
        if self._file is not None:
            self._file.close()

    async def _run(self, rest: Rest, work: Callable[[sqlite3.Connection], Any]) -> Any:
        if self._is_closed or not rest.may_try():
            return None
        try:
            async with asyncio.timeout(_SECONDS):
                found = await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._open()))
        except (sqlite3.Error, OSError) as error:
            rest.fail()
            if not self._has_failed:
                advice = "if this lasts, delete the file, or name another"
                structlog.get_logger().warning(
                    "verdict_store_failed", error=f"{type(error).__name__}: {error}", advice=advice
                )
            self._has_failed = True
            return None
        rest.end()
        self._has_failed = self._has_failed and rest is self._reading
        return found

    def _put(self, file: sqlite3.Connection, key: str, judgement: Judgement) -> None:
        value = judgement_to_record(judgement)
        if value is None or len(value) > self._max_bytes // 4:
            return
        now, room = self._clock(), _FILLED * self._max_bytes - len(value)
        with file:
            file.execute("DELETE FROM verdict WHERE stored <= ?", (now - self._ttl_seconds,))
            while file.execute(_PAGES).fetchone()[0] > room and file.execute(_DELETE_OLDEST).rowcount:
                pass
            file.execute("REPLACE INTO verdict VALUES (?, ?, ?)", (key, now, value))

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            if self._path is not None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._path.touch(mode=0o600)
            file = sqlite3.connect(self._path or ":memory:", timeout=_BUSY_SECONDS, check_same_thread=False)
            tables, application_id = file.execute(_MARKS).fetchone()
            if tables and application_id != _APPLICATION_ID:
                raise sqlite3.DatabaseError(f"{self._path} is another program's")
            if self._path is not None:
                self._path.chmod(0o600)
            file.executescript(_TABLE)
            self._file = file
        return self._file


# The names, types and defaults of what is written: a build whose judgements look otherwise reads none of the old ones.
_SHAPE: Final = sha256(repr(type_info(Judgement)).encode()).hexdigest()[:8]


def _encode_text(text: object) -> dict[str, Any]:
    if not isinstance(text, CodedText):
        raise NotImplementedError
    return {"code": text.code, "fields": encode_fields(text.fields)}


def _decode_text(_: type, stored: Any) -> CodedText:
    if not isinstance(stored, dict):
        raise ValueError(stored)
    return parse_text(stored.get("code"), stored.get("fields"))


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_text)
_DECODER: Final = msgspec.json.Decoder(Judgement, dec_hook=_decode_text)


def judgement_to_record(judgement: Judgement) -> bytes | None:
    """Serialize a judgement; None when a text of it is no Unicode (a lone surrogate that a model wrote)."""
    try:
        return zlib.compress(_ENCODER.encode(judgement), level=1)
    except UnicodeEncodeError:
        return None


def judgement_from_record(record: bytes) -> Judgement | None:
    """Parse a judgement; None when the bytes are damaged (zlib keeps a checksum) or of another shape."""
    try:
        return _DECODER.decode(zlib.decompress(record))
    except (zlib.error, msgspec.DecodeError):
        return None
