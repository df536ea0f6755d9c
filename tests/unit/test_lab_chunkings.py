"""Chunkings: verbatim stretches, in order, nothing lost, none too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.extras.lab.corpus import _WORD, parse_chunking

TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(["wing", "lift.", "It stalls!", "肺癌", "检查。", "《书》", "\n\n", "a"])).map(" ".join),
)


def cut(text: str, name: str) -> list[str]:
    return [chunk.fields["text"] for chunk in parse_chunking(name).cut("d", {"title": "T", "text": text})]


def test_windows_overlap_by_words() -> None:
    assert cut("a b c d e f g", "tokens-3-1") == ["a b c", "c d e", "e f g"]


def test_a_chinese_character_is_a_word_with_its_punctuation() -> None:
    assert cut("肺癌检查。完", "tokens-2") == ["肺癌", "检查。", "完"]


def test_sentences_stay_whole_and_repeat_where_a_new_one_fits() -> None:
    text = "One two. Three four. Five six seven eight nine. Ten."

    # "Five ... nine." alone fills a chunk, and is cut where it is too long
    assert cut(text, "sentences-4-1") == [
        "One two. Three four.",
        "Five six seven eight",
        "nine. Ten.",
    ]
    assert cut("Wings lift. Tails turn. Fins yaw.", "sentences-4-1") == [
        "Wings lift. Tails turn.",
        "Tails turn. Fins yaw.",
    ]


def test_a_document_without_text_is_one_chunk_and_other_fields_are_whole() -> None:
    (chunk,) = parse_chunking("tokens-5").cut("d", {"title": "Pumps"})

    assert (chunk.id, chunk.document_id, chunk.text) == ("d#0", "d", "Pumps")


@pytest.mark.parametrize("kind", ["tokens", "sentences"])
@given(text=TEXTS, size=st.integers(1, 9), overlap=st.integers(0, 3))
def test_nothing_is_lost_and_nothing_is_too_long(kind: str, text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, size - 1)

    found = cut(text, f"{kind}-{size}-{overlap}")

    assert all(each in text and each == each.strip() for each in found if each)
    assert all(len(_WORD.findall(each)) <= size for each in found)
    if not overlap:
        assert "".join("".join(found).split()) == "".join(text.split())
