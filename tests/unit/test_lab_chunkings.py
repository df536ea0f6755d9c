"""Where each chunking cuts, worked out by hand."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from plumbline.extras.lab.chunkings import HEADING, AnyChunking
from plumbline.extras.lab.corpus import BODY, Chunk, Document
from plumbline.ground.errors import InvalidInput
from tests.making.small_models import word_tokenizer

_ADAPTER: TypeAdapter[AnyChunking] = TypeAdapter(AnyChunking)

GUIDE = """\
Read this first.

# Pumps

## Fitting

Turn the pump over. Put the seal on the shaft.

Fasten four bolts.

## Running in

Run it for one hour.
"""


def cut(text: str, **settings: object) -> list[Chunk]:
    """The chunks of a text."""
    return list(_ADAPTER.validate_python(settings).prepare()(Document("d", {"title": "T", BODY: text})))


def texts(text: str, **settings: object) -> list[str]:
    """What each chunk holds of a text."""
    return [chunk.fields[BODY] for chunk in cut(text, **settings)]


def with_tokenizer(folder: Path) -> str:
    """A model's folder with a tokenizer that knows a few words, and makes one token of each other."""
    word_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    return str(folder)


def test_a_whole_document_keeps_its_id_and_its_text() -> None:
    (chunk,) = cut(" A wing. \n", kind="whole")

    assert chunk == Chunk("d", "d", {"title": "T", BODY: " A wing. \n"}, 0, 10)


@pytest.mark.parametrize("kind", ["whole", "tokens", "sentences", "headings"])
@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_document_without_text_is_one_chunk_with_its_other_fields(kind: str, text: str) -> None:
    (chunk,) = cut(text, kind=kind)

    assert chunk.document_id == "d"
    assert chunk.text.strip() == "T"
    assert chunk.fields[BODY] == text[chunk.start : chunk.end]


def test_a_document_without_the_field_is_as_one_without_text() -> None:
    cutter = _ADAPTER.validate_python({"kind": "tokens"}).prepare()

    assert list(cutter(Document("d", {"title": "T"}))) == [Chunk("d#0", "d", {"title": "T", BODY: ""}, 0, 0)]


def test_windows_of_words_overlap_and_end_with_the_text() -> None:
    found = cut("one two  three four five", kind="tokens", size=3, overlap=1)

    assert [(chunk.id, chunk.fields[BODY]) for chunk in found] == [
        ("d#0", "one two  three"),
        ("d#1", "three four five"),
    ]
    assert [(chunk.start, chunk.end) for chunk in found] == [(0, 14), (9, 24)]


def test_no_window_holds_the_overlap_alone() -> None:
    assert texts("a b c d e", kind="tokens", size=3, overlap=2) == ["a b c", "b c d", "c d e"]


def test_a_chinese_character_is_a_word_and_keeps_its_punctuation() -> None:
    assert texts("机翼，很轻。NACA 0012《风》", kind="tokens", size=2) == ["机翼，", "很轻。", "NACA 0012", "《风》"]


def test_the_overlap_is_less_than_the_size() -> None:
    with pytest.raises(ValidationError, match="overlap 3 is not less than size 3"):
        _ADAPTER.validate_python({"kind": "tokens", "size": 3, "overlap": 3})


def test_tokens_are_those_of_the_model_and_words_stay_whole(tmp_path: Path) -> None:
    model = with_tokenizer(tmp_path)
    # Marks are tokens of their own: the 1, bridge 1, (two) 3, warm 1, cross! 2
    text = "the bridge (two) warm cross!"

    assert texts(text, kind="tokens", unit="tokens", size=4, model=model) == ["the bridge", "(two) warm", "cross!"]
    assert texts(text, kind="sentences", unit="tokens", size=4, model=model) == ["the bridge", "(two) warm", "cross!"]


def test_a_word_of_more_tokens_than_fit_is_cut_between_them(tmp_path: Path) -> None:
    model = with_tokenizer(tmp_path)

    # "two", "-", "two", "-", "two": five tokens and no blank
    assert texts("a two-two-two", kind="tokens", unit="tokens", size=2, model=model) == ["a", "two-", "two-", "two"]


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "nothing"
    empty.mkdir()

    with pytest.raises(InvalidInput, match="nothing"):
        cut("a", kind="tokens", unit="tokens", model=str(empty))


def test_a_model_without_a_tokenizer_file_is_named(tmp_path: Path) -> None:
    model = with_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").unlink()

    with pytest.raises(InvalidInput, match=r"no tokenizer\.json"):
        cut("a", kind="tokens", unit="tokens", model=model)


def test_sentences_are_joined_while_they_fit() -> None:
    text = "It flew. It fell. Nobody knew why it fell. It was heavy."

    assert texts(text, kind="sentences", size=5) == ["It flew. It fell.", "Nobody knew why it fell.", "It was heavy."]


def test_sentences_overlap_by_sentences() -> None:
    text = "It flew. It fell. It broke."

    assert texts(text, kind="sentences", size=4, overlap=1) == ["It flew. It fell.", "It fell. It broke."]


def test_chinese_sentences_are_joined_by_their_characters() -> None:
    text = "机翼很轻。它飞了。风很大。"

    # 4, 3 and 3 characters, marks with them
    assert texts(text, kind="sentences", size=7) == ["机翼很轻。它飞了。", "风很大。"]


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert texts("It flew. one two three four five.", kind="sentences", size=3) == [
        "It flew.",
        "one two three",
        "four five.",
    ]


def test_sections_are_chunks_under_their_headings() -> None:
    found = [(chunk.fields[HEADING], chunk.fields[BODY]) for chunk in cut(GUIDE, kind="headings", size=50)]

    assert found == [
        ("", "Read this first."),
        (
            "Pumps > Fitting",
            "# Pumps\n\n## Fitting\n\nTurn the pump over. Put the seal on the shaft.\n\nFasten four bolts.",
        ),
        ("Pumps > Running in", "## Running in\n\nRun it for one hour."),
    ]


def test_a_section_that_is_too_long_is_cut_at_paragraphs_then_sentences_then_words() -> None:
    # The headings are 4 words with their marks, the sentences 4 and 6, the last paragraph 3
    fitting = [each.fields[BODY] for each in cut(GUIDE, kind="headings", size=8) if "Fitting" in each.fields[HEADING]]
    tight = [each.fields[BODY] for each in cut(GUIDE, kind="headings", size=4) if "Fitting" in each.fields[HEADING]]

    assert fitting == [
        "# Pumps\n\n## Fitting\n\nTurn the pump over.",
        "Put the seal on the shaft.",
        "Fasten four bolts.",
    ]
    assert tight == [
        "# Pumps\n\n## Fitting",
        "Turn the pump over.",
        "Put the seal on",
        "the shaft.",
        "Fasten four bolts.",
    ]


def test_the_heading_is_read_before_the_text() -> None:
    last = cut(GUIDE, kind="headings")[-1]

    assert list(last.fields) == ["title", HEADING, BODY]
    assert last.text.startswith("T\nPumps > Running in\n## Running in")


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("Wings\n=====\nOne.\n\nLift\n----\nTwo.", ["Wings", "Wings > Lift"]),
        ("## Lift\n\nOne.\n\n# Drag #\n\nTwo.", ["Lift", "Drag"]),
        ("## C#\n\nOne.", ["C#"]),
        ("# A\n\n**Bold line**\n\nOne.\n\n# B\n\nTwo.", ["A > Bold line", "B"]),
        (
            "Chapter 1\n\nOne.\n\n1.1 Methods\n\nTwo.\n\nChapter 2\n\nThree.",
            ["Chapter 1", "Chapter 1 > 1.1 Methods", "Chapter 2"],
        ),
        (
            "第一章 风洞\n\n很大。\n\n第二节 机翼\n\n很轻。\n\n第二章 飞行\n\n很快。",
            ["第一章 风洞", "第一章 风洞 > 第二节 机翼", "第二章 飞行"],
        ),
        ("```\n# no heading\n```\n\nOne.", [""]),
        ("3.5 million people came.\n\nChapter 3 says so.", [""]),
        ("# A\n\nOne.\n\n# B", ["A", "B"]),
    ],
)
def test_headings_of_several_kinds_are_found(text: str, paths: list[str]) -> None:
    assert [chunk.fields[HEADING] for chunk in cut(text, kind="headings")] == paths


def test_a_field_of_that_name_stands_before_the_headings() -> None:
    cutter = _ADAPTER.validate_python({"kind": "headings"}).prepare()
    (chunk,) = cutter(Document("d", {HEADING: "Manual", BODY: "# Pumps\n\nOne."}))

    assert chunk.fields[HEADING] == "Manual > Pumps"


def test_a_setting_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValidationError, match="sise"):
        _ADAPTER.validate_python({"kind": "tokens", "sise": 3})
