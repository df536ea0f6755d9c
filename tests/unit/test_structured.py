"""Structured contexts in lines: values behind their paths, in the text as it is, and exact facts of a line."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.structured import ExactFacts, split_context

JSON = (
    '{"product": "X10", "specs": {"capacity_l": 1.7}, "stock": [{"shop": "Leeds", "count": 6}, '
    '{"shop": "York", "count": 0}]}'
)
READINGS = (
    "product X10",
    "product X10 specs capacity l 1.7",
    "product X10 stock shop Leeds",
    "product X10 stock shop Leeds count 6",
    "product X10 stock shop York",
    "product X10 stock shop York count 0",
)


def test_a_value_reads_with_the_names_that_lead_to_it_and_name_what_is_around_it() -> None:
    found = split_context(JSON)

    assert tuple(found.readings.values()) == READINGS
    assert all(JSON[each.start : each.end] == each.text for each in found.sentences)


def test_the_evidence_for_a_value_of_json_is_its_key_and_value_alone() -> None:
    assert split_context(JSON).sentences[1].text == '"capacity_l": 1.7'


def test_a_row_of_csv_reads_with_the_names_of_its_columns() -> None:
    found = split_context('shop,product_name,count\nLeeds,"X10, red",6\nYork,X10,0\n')

    assert list(found.readings.values()) == [
        "shop Leeds, product name X10, red, count 6",
        "shop York, product name X10, count 0",
    ]


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ('```json\n{"city": "Oslo", "temp": 21}\n```', ["city Oslo", "city Oslo temp 21"]),
        ('Result: {"city": "Oslo", "temp": 21}', ["city Oslo", "city Oslo temp 21"]),
        ('{"city": "Oslo", "temp": 21}\n\nMeasured at noon.', ["city Oslo", "city Oslo temp 21"]),
        (
            "[{'city': 'Oslo'}, {'city': \"L'Aquila\", 'dry': True}]",
            ["city Oslo", "city L'Aquila", "city L'Aquila dry True"],
        ),
        ("name,price\nKettle,20\nToaster,30\n", ["name Kettle, price 20", "name Toaster, price 30"]),
        ("name;price (€)\nKettle;20\nToaster;30\n", ["name Kettle, price (€) 20", "name Toaster, price (€) 30"]),
        ('"name","price","note"\nKettle,20,"red, with\nlid"\n', ["name Kettle, price 20, note red, with lid"]),
        ('name,price,note\nToaster,30,"says ""hi"""\n', ['name Toaster, price 30, note says "hi"']),
    ],
)
def test_values_are_read_as_tools_and_people_write_them(text: str, readings: list[str]) -> None:
    found = split_context(text)

    assert list(found.readings.values()) == readings
    assert all(text[each.start : each.end] == each.text for each in found.sentences)


def test_a_title_before_json_stays_apart() -> None:
    text = 'Weather\n\n{"city": "Oslo", "temp": 21}'

    found = split_context(text, lead=9)

    assert [each.text for each in found.sentences] == ["Weather", '"city": "Oslo"', '"temp": 21']
    assert found.readings == {1: "city Oslo", 2: "city Oslo temp 21"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The museum opened in 1931. It was designed by Lena Ruiz.",
        "Opening hours: 9:00 to 17:00.\nTickets: 12 euros, children free.\nParking: none.",
        "{curly} words, and no JSON",
        '{"a": 1,,}}',
        "Leeds, York and Hull are cities.\nThey lie in England, in the north, mostly.",
        "[1] First passage. [2] Second passage.",
        "Features:\n- light\n- quiet\n- cheap",
        "Alice: Hello there.\nBob: hi\nCarol: good day",
        "name: kettle\nprice: 20\ncolour: red\n",
        "2026-05-01T10:00:01Z INFO worker-7 started\n2026-05-01T10:00:09Z ERROR worker-3 refused\n",
        "Leeds, York\nHull, Ripon\nSelby, Thirsk",
        'The words ["so" he said] are his.',
        "青川水库于1987年建成，总库容为3.2亿立方米。",
    ],
)
def test_other_texts_are_split_as_before(text: str) -> None:
    found = split_context(text)

    assert found.sentences == split_sentences(text)
    assert found.readings == {}


@pytest.mark.parametrize(
    ("claim", "misplaced"),
    [
        ("worker-3 restarted with pid 4427.", ()),
        ("worker-3 restarted with pid 4411.", ("4411",)),
        # Nothing that the lines have: other measures see to that.
        ("The queue holds 9 items.", ()),
        # Each clause has its own line.
        ("worker-7 started with pid 4411, and worker-3 restarted with pid 4427.", ()),
    ],
)
def test_a_number_or_identifier_of_another_line_is_misplaced(claim: str, misplaced: tuple[str, ...]) -> None:
    facts = ExactFacts(["worker-7 started pid 4411", "worker-3 restarted pid 4427"])

    assert tuple(each.partition(" ")[0] for each in facts.find_misplaced(claim)) == misplaced


@pytest.mark.parametrize(("claim", "misplaced"), [("海淀店库存数量6。", ()), ("朝阳店库存数量6。", ("6",))])
def test_a_number_between_chinese_words_belongs_to_its_line(claim: str, misplaced: tuple[str, ...]) -> None:
    text = '{"库存": [{"门店": "海淀店", "数量": 6}, {"门店": "朝阳店", "数量": 0}]}'

    found = ExactFacts(split_context(text).readings.values()).find_misplaced(claim)

    assert tuple(each.partition(" ")[0] for each in found) == misplaced


def test_deep_and_unpaired_json_is_a_text_as_any_other() -> None:
    for text in ("[" * 10_000 + "]" * 10_000, '{"a": ' * 500 + "1" + "}" * 500, '["a"' * 1_000 + "]"):
        assert split_context(text).readings == {}
