"""Target trec: judgments and runs out of any bytes, by all readers that there are."""

import gzip
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.fuzz.material import pieced
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval import inputs
from plumbline.retrieval.input_rows import NamedFile
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.text_file import ReadLimits, read_text_bytes

LIMITS = ReadLimits(max_bytes=200_000, max_rows=3_000)
_PIECES = (
    "q", "q1", "d", "d1", "d2", "d3", "Q0", "t", "0", "1", "2", "-1", "2.5", "-2.5", "1e3",
    "1e9999", "-0", "+2", "nan", "inf", "0x1", "1_0", "01", ".5", "5.", "9" * 30, "1" * 5_000,
    "٣", "½", " ", " ", " ", " ", "\t", "\n", "\n", "\n", "\r\n", "\r", "\v", "\f", "\x1c",
    "\x85", "\u00a0", "\u3000", "#", "# c\n", '"', "'", ",", "[", "]", "\\", "\0", "\ufeff",
    "大坝", "😀", "query-id", "corpus-id", "score", "query-id\tcorpus-id\tscore\n",
    "q Q0 d1 1 2.5 t\n", "q Q0 d2 2 1.5 t\n", "r Q0 d1 1 2 t\n", "q\tQ0\td3\t1\t2\tt\n",
    "q d1 1\n", "q d2 2\n", "q 0 d1 1\n", "q 0 d2 0\n", "{", "}", ":", "x" * 1_030,
)  # fmt: skip
SEEDS = (
    *(
        b"\xff" + text
        for text in (
            b"q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t\nq2 Q0 d1 1 1e-3 t\n",
            b"q1\tQ0\td1\t1\t2.5\tt\r\nq1\tQ0\td2\t2\t-1.5\tt\r\n",
            b"q1 d1 1\nq1 d2 2\nq2 d1 7\n",
            b"q1 0 d1 1\nq1 0 d2 0\n# comment\n\nq2 0 d1 3\n",
            b"query-id\tcorpus-id\tscore\nq 1\td 1\t1\n",
            b"qid\tdoc_ids\tdocument_ids\nq1\t['a', 'b']\t[1 2]\n",
            b'{"query_id": "q", "results": {"d": 1.5}}\n',
        )
    ),
    b"\xfe" + gzip.compress(b"q1 Q0 d1 1 2.5 t\n", mtime=0),
)
_Read = TypeVar("_Read")
_PLACE = re.compile(r"f\.txt(?::(\d+))?")


def bytes_of(data: bytes) -> bytes:
    """A file of a fuzzer's bytes: of pieces, the same compressed, or as they are."""
    kind, rest = data[:1], data[1:]
    if kind < b"\x90":
        return pieced(rest, _PIECES, limit=60_000).encode()
    if kind < b"\xb0":
        return gzip.compress(pieced(rest, _PIECES, limit=60_000).encode(), mtime=0)
    return rest


def check(data: bytes) -> None:
    """Raises AssertionError where two readers disagree, or an error does not say where it is."""
    file = bytes_of(data)
    try:
        text = read_text_bytes(file, name="f.txt", limits=LIMITS)
    except InvalidInput as error:
        _check_place(error, file.count(b"\n") + 1 if not file.startswith(b"\x1f\x8b") else None)
        for read in (read_run, read_qrels):
            assert isinstance(_outcome(read, file), InvalidInput), "read what is no text"
        return
    last = text.count(b"\n") + 1
    _check_run(file, text, last)
    judged = _outcome(read_qrels, file)
    if isinstance(judged, InvalidInput):
        _check_place(judged, last)
    else:
        again = read_qrels(json.dumps(judged).encode())
        assert again == judged, "judgments written and read"


def read_qrels(data: bytes) -> Qrels:
    return inputs.read_qrels(NamedFile("f.txt", data), limits=LIMITS).qrels


def read_run(data: bytes) -> Run:
    return inputs.read_run(NamedFile("f.txt", data), name="f.txt", limits=LIMITS).run


def _check_run(file: bytes, text: bytes, last: int) -> None:
    run, plain = _outcome(read_run, file), _outcome(read_run, text)
    if isinstance(run, InvalidInput):
        _check_place(run, last)
        assert isinstance(plain, InvalidInput), "refused what is read without compression"
        assert str(run) == str(plain), "another complaint"
    else:
        assert not isinstance(plain, InvalidInput), "refused without compression"
        again = read_run(json.dumps(run.results).encode())
        assert _plain(again) == _plain(run) == _plain(plain), "run written and read"


def _plain(run: Run) -> dict[str, Any]:
    return {query: found if isinstance(found, dict) else [*found] for query, found in run.results.items()}


def _outcome(read: Callable[..., _Read], data: bytes) -> _Read | InvalidInput:
    try:
        return read(data)
    except InvalidInput as error:
        return error


def _check_place(error: InvalidInput, last: int | None) -> None:
    found = _PLACE.match(error.place or "")
    assert found, f"no place: {error}"
    if found[1] and last is not None:
        assert 1 <= int(found[1]) <= last, "line beyond the file"
