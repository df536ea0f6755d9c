"""What holds for the chunks of any text, whatever cuts it."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from plumbline.extras.lab.chunkings import HEADING, AnyChunking
from plumbline.extras.lab.corpus import BODY, Chunk, Document
from plumbline.extras.lab.text_lengths import MeasuredText, pack_runs
from plumbline.retrieval.ids import build_id_rule

_PIECES = (
    "word", "The", "Dr.", "wing.Then", "3.14", "é", "好", "他说", "《风》", "。", "！", ".", "!", ";", " ", "  ", "\n",
    "\n\n", "\r\n", "\u3000", "\x1c", "\u2028", '"', "“", "”", "(", ")", "- ", "1. ", "# ", "## Lift\n", "### Drag\n\n",
    "**Bold**\n", "Title\n===\n", "2.1 Methods\n", "第三章 风\n", "| a | b |", "```", "> ", "😀", "\u200d", "\ufeff",
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_PIECES), max_size=60).map("".join))
_SIZES = st.integers(1, 12)
_IDS = st.text(st.sampled_from("ab#_-:1/"), min_size=1, max_size=8)
_KINDS = st.sampled_from(["tokens", "sentences", "headings"])
_ADAPTER: TypeAdapter[AnyChunking] = TypeAdapter(AnyChunking)


def cut(text: str, own_id: str = "doc", **settings_: object) -> list[Chunk]:
    """The chunks of a document with a title."""
    cutter = _ADAPTER.validate_python(settings_).prepare()
    return list(cutter(Document(own_id, {"title": "On wings", BODY: text})))


@given(_TEXTS, _KINDS, _SIZES)
def test_a_chunk_is_what_lies_at_its_offsets(text: str, kind: str, size: int) -> None:
    for chunk in cut(text, kind=kind, size=size):
        assert chunk.fields[BODY] == text[chunk.start : chunk.end]
        assert chunk.fields[BODY] == chunk.fields[BODY].strip()
        assert chunk.fields["title"] == "On wings"


@given(_TEXTS, _KINDS, _SIZES)
def test_chunks_are_in_order_and_leave_out_white_space_only(text: str, kind: str, size: int) -> None:
    position = 0

    for chunk in cut(text, kind=kind, size=size):
        assert not text[position : chunk.start].strip()
        assert chunk.start >= position
        position = chunk.end

    assert not text[position:].strip()


@given(_TEXTS, _KINDS, _SIZES)
def test_no_chunk_is_longer_than_the_size(text: str, kind: str, size: int) -> None:
    for chunk in cut(text, kind=kind, size=size):
        assert MeasuredText(chunk.fields[BODY], None).length(0, len(text)) <= size


@given(_TEXTS, st.integers(2, 12), st.integers(1, 11))
def test_each_window_goes_on_and_repeats_no_more_than_the_overlap(text: str, size: int, overlap: int) -> None:
    shared = min(overlap, size - 1)
    chunks = cut(text, kind="tokens", size=size, overlap=shared)

    for before, after in itertools.pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert MeasuredText(text[after.start : before.end], None).length(0, len(text)) == shared
        assert not text[before.end : after.start].strip()


@given(_TEXTS, _SIZES, st.integers(0, 3))
def test_sentences_go_on_whatever_their_overlap(text: str, size: int, overlap: int) -> None:
    chunks = cut(text, kind="sentences", size=size, overlap=overlap)

    for before, after in itertools.pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert not text[before.end : after.start].strip()


@given(_IDS, _TEXTS, _KINDS, _SIZES)
def test_ids_lead_back_to_the_document(own_id: str, text: str, kind: str, size: int) -> None:
    chunks = cut(text, own_id, kind=kind, size=size)

    assert [chunk.id for chunk in chunks] == [f"{own_id}#{number}" for number in range(len(chunks))]
    assert {chunk.document_id for chunk in chunks} == {own_id}
    assert {build_id_rule("strip_chunk")(chunk.id) for chunk in chunks} == {own_id}


@given(_TEXTS, _SIZES)
def test_every_chunk_of_headings_says_where_it_stands(text: str, size: int) -> None:
    for chunk in cut(text, kind="headings", size=size):
        assert chunk.fields.get(HEADING, "") == " ".join(chunk.fields.get(HEADING, "").split())


@given(_TEXTS)
def test_words_are_all_that_is_no_white_space(text: str) -> None:
    words = MeasuredText(text, None).words(0, len(text), size=1)

    assert "".join(text[start:end] for start, end in zip(words.starts, words.ends, strict=True)) == re.sub(
        r"\s", "", text
    )


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4))), _TEXTS, _SIZES)
def test_a_text_is_cut_whatever_a_tokenizer_says_of_it(tokens: list[tuple[int, int]], text: str, size: int) -> None:
    places = sorted((start % len(text), min(len(text), start % len(text) + length)) for start, length in tokens if text)
    pieces = MeasuredText(text, places).words(0, len(text), size=size)

    assert "".join(text[start:end] for start, end in zip(pieces.starts, pieces.ends, strict=True)) == re.sub(
        r"\s", "", text
    )
    assert all(length >= 1 for length in pieces.lengths)


@given(st.lists(st.integers(1, 9), max_size=40), _SIZES, st.integers(0, 12), st.booleans())
def test_runs_cover_all_pieces_and_fit(lengths: list[int], size: int, overlap: int, counts_pieces: bool) -> None:
    runs = list(pack_runs(lengths, size=size, overlap=overlap, counts_pieces=counts_pieces))

    assert set().union(*(range(first, after) for first, after in runs)) == set(range(len(lengths)))
    assert all(sum(lengths[first:after]) <= size or after == first + 1 for first, after in runs)
    for (first, after), (next_first, next_after) in itertools.pairwise(runs):
        shared = after - next_first if counts_pieces else sum(lengths[next_first:after])
        assert first < next_first <= after < next_after
        assert shared <= overlap
