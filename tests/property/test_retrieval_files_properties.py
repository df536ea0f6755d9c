"""Whatever is uploaded is read as it was written, or refused in our own words."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval import inputs, trec
from plumbline.retrieval.ids import ID_RULES, build_id_rule
from plumbline.retrieval.input_rows import NamedFile
from plumbline.retrieval.llm_rankings import parse_ranking
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.text_file import ReadLimits

LIMITS = ReadLimits(max_bytes=10_000, max_rows=100)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\r\n\v\f"), min_size=1, max_size=8).filter(
    lambda text: text[0] not in "#\ufeff"
)
SCORES = st.floats(allow_nan=False, allow_infinity=False)
# the alphabet of such files, so that most lines nearly are one
NEARLY = st.lists(
    st.sampled_from(["q", "d", "1", "-2.5", "nan", "0x1", " ", " ", "\t", "\n", "\n", "\r", "#", '"', "[", "]", "1_0"]),
    max_size=60,
).map(lambda parts: "".join(parts).encode())


def read_run(data: bytes) -> Run:
    return inputs.read_run(NamedFile("f", data), name="f", limits=LIMITS).run


def read_qrels(data: bytes) -> Qrels:
    return inputs.read_qrels(NamedFile("f", data), limits=LIMITS).qrels


@given(st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_run_that_is_written_reads_back(results: dict[str, dict[str, float]]) -> None:
    rows = [f"{query} Q0 {doc} 1 {score!r} t\n" for query, docs in results.items() for doc, score in docs.items()]
    data = "".join(rows).encode()

    assert read_run(data).results == results


@given(
    st.lists(st.tuples(st.sampled_from(["q1", "q2", "q3"]), st.integers(0, 99), SCORES), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 5_000), st.sampled_from(sorted(b'  \t\n\r\f\x1c#"_-+.eE1'))), max_size=2),
    st.sampled_from([" ", "\t"]),
)
def test_columns_hold_what_the_lines_hold_or_nothing(
    rows: list[tuple[str, int, float]], changes: list[tuple[int, int]], sign: str
) -> None:
    lines = [f"{query} Q0 d{doc} 1 {score!r} t\n".replace(" ", sign) for query, doc, score in rows]
    data = bytearray("".join(lines).encode())
    for at, byte in changes:
        data[at % len(data)] = byte
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec, "_FEWEST_TOGETHER", 0)
        patch.setattr(trec, "_BLOCK_BYTES", 200)
        found = trec._read_columns(bytes(data), LIMITS)

    if found is not None:
        assert found == trec.read_run(bytes(data), name="f", limits=LIMITS).results
        assert found.keys()
        assert all("d" not in scores and len(scores) for scores in found.values())
        assert all(scores.find([*scores, "\ud800"]) == dict(scores) for scores in found.values())
    else:
        assert changes or len({row[:2] for row in rows}) < len(rows)


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(-2, 4), min_size=1), min_size=1, max_size=4))
def test_judgments_that_are_written_read_back(qrels: dict[str, dict[str, int]]) -> None:
    rows = [f"{query}\t0\t{doc}\t{grade}\r\n" for query, docs in qrels.items() for doc, grade in docs.items()]

    assert read_qrels(gzip.compress("".join(rows).encode())) == qrels


@given(st.binary(max_size=200) | NEARLY | st.binary(max_size=50).map(lambda tail: b"\x1f\x8b\x08\0" + tail))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_qrels, read_run):
        with suppress(InvalidInput):
            read(data)


@given(st.text(max_size=60), st.text(max_size=40))
def test_any_pattern_works_or_is_refused(pattern: str, doc_id: str) -> None:
    with suppress(InvalidInput):
        assert build_id_rule("regex", pattern=pattern)(doc_id) or not doc_id


@given(st.sampled_from([rule for rule in ID_RULES if rule != "regex"]), st.text(min_size=1))
def test_no_rule_empties_an_id(rule: str, doc_id: str) -> None:
    with suppress(InvalidInput):
        assert build_id_rule(rule)(doc_id)


@given(
    st.text()
    | st.lists(st.sampled_from(["d1", "d2", "[", "]", ">", " ", "1.", "\n", ",", "{", '"', "<think>"])).map("".join),
    st.none() | st.lists(IDS | st.sampled_from(["d1", "d2", "7"]), max_size=4),
)
def test_a_ranking_holds_candidates_once_or_says_that_it_failed(text: str, candidates: list[str] | None) -> None:
    parsed = parse_ranking(text, candidates=candidates)

    assert len(set(parsed.ids)) == len(parsed.ids)
    assert candidates is None or set(parsed.ids) <= set(candidates)
    assert parsed.parse_ok == bool(parsed.ids)
