"""Files of judgments and runs: read whole, or refused with the line; `making/bad_files.py` has other faults."""

import gzip
import tracemalloc

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval import inputs
from plumbline.retrieval.input_rows import NamedFile
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.text_file import ReadLimits
from tests.making.cases import load_cases

LIMITS = ReadLimits(max_bytes=1_000_000, max_rows=1_000)
RUN = b"q1 Q0 d1 1 2.5 bm25\nq1 Q0 d2 2 1.5 bm25\nq2 Q0 d1 1 3 bm25\n"
SCORES = {"q1": {"d1": 2.5, "d2": 1.5}, "q2": {"d1": 3.0}}


def read_run(data: bytes) -> Run:
    return inputs.read_run(NamedFile("f", data), name="f", limits=LIMITS).run


def read_qrels(data: bytes, limits: ReadLimits = LIMITS) -> Qrels:
    return inputs.read_qrels(NamedFile("f", data), limits=limits).qrels


@pytest.mark.parametrize(
    "data",
    [
        RUN,
        RUN.replace(b" ", b"\t"),
        RUN.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + RUN,
        b"# a comment\n\n" + RUN,
        RUN.replace(b" ", b"  \t"),
        RUN.replace(b"bm25", b"bm25 ignored"),
        gzip.compress(RUN[:20], mtime=0) + gzip.compress(RUN[20:], mtime=0),
    ],
)
def test_a_run_is_read_however_it_is_spaced(data: bytes) -> None:
    assert read_run(data).results == SCORES


def test_three_columns_are_ranked_lists_in_rank_order() -> None:
    assert read_run(b"1\td2\t2\n1\td1\t1\n").results == {"1": ["d1", "d2"]}


@pytest.mark.parametrize("data", [b"q1 0 d1 2\nq1 0 d2 -1\n", b"query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1.0\n"])
def test_judgments_are_read_in_either_form(data: bytes) -> None:
    assert read_qrels(data) == {"q1": {"d1": 2, "d2": -1}}


def test_a_table_with_tabs_keeps_blanks_inside_of_ids() -> None:
    data = b"query-id\tcorpus-id\tscore\n# note\nq 1\td 1\t1\n"

    assert read_qrels(data) == {"q 1": {"d 1": 1}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"q d 1\n", "f:1: expected 4 fields 'query_id 0 doc_id relevance', found 3"),
        (b"q 0 d nan\n", "f:1: found the grade 'nan'"),
        (b"q 0 d 1_0\n", "f:1: found the grade"),
        (b"q 0 d 1\nq 0 \0 1\n", "f:2: holds a NUL"),
        (gzip.compress(b"q 0 d 1\n", mtime=0) + b"junk", "gzip data is broken"),
    ],
)
def test_bad_judgments_are_refused_with_the_line(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_qrels(data)

    assert message in str(caught.value)


@pytest.mark.parametrize(("data", "message"), load_cases("trec_files", "bad_runs"))
def test_bad_runs_are_refused_with_the_line(data: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_run(data.encode())

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("max_bytes", "message", "most"),
    [
        (1_000_000, "expands to more than 1000000 bytes", 8_000_000),
        (150_000_000, "more than 250 times of what was sent", 32_000_000),
    ],
)
def test_a_gzip_bomb_is_refused_in_little_memory(max_bytes: int, message: str, most: int) -> None:
    bomb = gzip.compress(bytes(50_000_000), 9)

    tracemalloc.start()
    with pytest.raises(InvalidInput, match=message):
        read_qrels(bomb, ReadLimits(max_bytes=max_bytes, max_rows=9))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < most


def test_tables_of_id_lists_become_a_run_and_judgments() -> None:
    results = b'qid\tanswer\tdoc_ids\n7\t"two\nlines"\t"[""b"", ""a""]"\n8\tx\t[]\n'
    reference = b"qid\tdocument_ids\n7\t['<urn:a>' '<urn:b>']\n8\t['c\\x41']\n9\t[007 12]\n"

    run, qrels = read_run(results), read_qrels(reference)

    assert run.results == {"7": ["b", "a"], "8": []}
    assert qrels == {"7": {"<urn:a>": 1, "<urn:b>": 1}, "8": {"cA": 1}, "9": {"007": 1, "12": 1}}


@pytest.mark.parametrize(("data", "message"), load_cases("trec_files", "bad_tables"))
def test_bad_tables_are_refused_with_the_line(data: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_run(data.encode())

    assert message in str(caught.value)
