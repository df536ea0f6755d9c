"""What holds for the sentences of any text."""

from hypothesis import given
from hypothesis import strategies as st

from plumbline.judging.text.segmentation import split_sentences

_PIECES = (
    "word", "The", "Dr.", "U.S.", "e.g.", "3.14", "v1.2", "é", "好", "他说", "https://a.b/c.", "[1]", "【1】",
    "。", "！", "？", "；", "：", "……", "…", ".", "!", "?", ";", ":", ",", " ", "  ", "\n", "\n\n", "\r\n", "\u3000",
    "\x1c", "\u2028", '"', "'", "“", "”", "‘", "’", "(", ")", "（", "）", "《", "》", "[", "]", " (Smith, 2020)",
    "- ", "* ", "• ", "1. ", "1)", "①", "一、", "# ", "##", "**", "__", "|", "| a | b |", "|---|---|",
    "---", "===", "```", "~~~", "> ", ">", "😀", "\u200d", "\ufeff",
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))


@given(_TEXTS)
def test_sentences_lie_in_order_at_their_offsets_and_leave_out_white_space_only(text: str) -> None:
    position = 0

    for sentence in split_sentences(text):
        assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip() != ""
        assert sentence.start >= position
        assert not text[position : sentence.start].strip()
        position = sentence.end

    assert not text[position:].strip()


@given(_TEXTS)
def test_what_has_no_letter_or_digit_is_markup(text: str) -> None:
    for sentence in split_sentences(text):
        assert sentence.kind == "markup" or any(character.isalnum() for character in sentence.text)


@given(_TEXTS, st.sampled_from(["\n", "\n\n", " \n\t\n"]))
def test_blank_lines_in_front_only_move_the_sentences(text: str, blank: str) -> None:
    moved = [(s.text, s.start - len(blank), s.end - len(blank), s.kind) for s in split_sentences(blank + text)]

    assert moved == [(s.text, s.start, s.end, s.kind) for s in split_sentences(text)]
