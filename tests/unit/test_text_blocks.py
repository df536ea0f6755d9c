"""Markdown of a marked text becomes blocks of a page; every word and every mark stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.rows.report.text_blocks import Block, Piece, split_blocks


def shown(*pieces: Piece) -> list[tuple[str, list[list[str]]]]:
    """The blocks by kind, each cell as its text."""
    blocks = split_blocks(pieces)
    return [(each.kind, [["".join(p.text for p in cell) for cell in row] for row in each.rows]) for each in blocks]


def test_headings_items_tables_and_text_are_told_apart() -> None:
    text = "# Bridges\nThree of them.\n\n| Name | Year |\n|---|:--:|\n| Marlow | 1931 |\nTeal | 1958\n- one\n* two\nend"

    assert shown(Piece(text)) == [
        ("heading", [["Bridges"]]),
        ("text", [["Three of them."]]),
        ("table", [["Name", "Year"], ["Marlow", "1931"], ["Teal", "1958"]]),
        ("item", [["one"]]),
        ("item", [["two"]]),
        ("text", [["end"]]),
    ]


def test_marks_go_on_over_cells_and_bold_words() -> None:
    pieces = Piece("| **Opened** | "), Piece("1931 | long", "supported", 2), Piece(" |\n|--|--|--|\n| a | b | c |")

    (table,) = split_blocks(pieces)

    assert table.rows[0] == (
        (Piece("Opened", is_bold=True),),
        (Piece("1931", "supported", 2),),
        (Piece("long", "supported", 2),),
    )


@pytest.mark.parametrize("text", ["a | b\nc | d", "** not bold **", "2 ** 3", "#hash", "-1 degree", "|---|"])
def test_what_only_looks_like_markdown_stays_as_it_is(text: str) -> None:
    assert shown(Piece(text)) == [("text", [[text]])]


def test_a_very_long_text_is_shown_as_it_is() -> None:
    pieces = Piece("# a\n" * 50_000), Piece("- b\n", "supported", 1)

    assert split_blocks(pieces) == (Block("text", ((pieces,),)),)


@given(st.lists(st.text("ab |*#-\\\n", max_size=12), max_size=6))
def test_no_letter_is_lost_or_moved(texts: list[str]) -> None:
    letters = [each for text in texts for each in text if each in "ab"]

    found = shown(*(Piece(text, "supported" if at % 2 else "", at) for at, text in enumerate(texts)))

    assert [each for _, rows in found for row in rows for cell in row for each in cell if each in "ab"] == letters
