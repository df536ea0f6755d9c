"""Structured contexts in lines: values behind their paths, in the text as it is, and exact facts of a line."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.structured import ExactFacts, split_context

JSON = (
    '{"product": "X10", "specs": {"capacity_l": 1.7}, "stock": [{"shop": "Leeds", "count": 6}, '
    '{"shop": "York", "count": 0}]}'
)
YAML = "product: X10\nspecs:\n  capacity_l: 1.7\nstock:\n  - shop: Leeds\n    count: 6\n  - shop: York\n    count: 0\n"
READINGS = (
    "product X10",
    "product X10 specs capacity l 1.7",
    "product X10 stock shop Leeds",
    "product X10 stock shop Leeds count 6",
    "product X10 stock shop York",
    "product X10 stock shop York count 0",
)
LOG = (
    "2026-05-01T10:00:01Z INFO worker-7 started pid=4411\n"
    "2026-05-01T10:00:09Z ERROR worker-3 connection to db-02.internal:5432 refused (ERR_4031)\n"
    "2026-05-01T10:00:12Z INFO worker-3 restarted pid=4427\n"
)
OTHER_LINES = [
    (
        '10.0.0.1 - - [10/Oct/2025:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326\n'
        '10.0.0.3 - - [10/Oct/2025:13:55:37 -0700] "GET /b HTTP/1.0" 404 12\n'
        '10.0.0.4 - - [10/Oct/2025:13:55:38 -0700] "GET /c HTTP/1.0" 500 13\n',
        3,
    ),
    (
        "I0501 10:00:01.1       1 main.go:10] up\nE0501 10:00:02.1       1 main.go:12] no\nI0501 10:00:03.1 1 a:1] ok",
        3,
    ),
    (
        "2026-05-01 10:00:01,123 ERROR app failed\nTraceback (most recent call last):\n"
        '  File "a.py", line 3, in <module>\n    fetch()\nValueError: bad url\n2026-05-01 10:00:02,123 INFO app ok\n',
        6,
    ),
    ('[server]\nhost = "a"\nport = 8080\n', 3),
]
CODE = (
    "def fetch(url, max_retries=3):\n    for attempt in range(max_retries):\n        time.sleep(2)\n    return None\n"
)


@pytest.mark.parametrize("text", [JSON, YAML], ids=["json", "yaml"])
def test_a_value_reads_with_the_names_that_lead_to_it_and_name_what_is_around_it(text: str) -> None:
    found = split_context(text)

    assert tuple(found.readings.values()) == READINGS
    assert all(text[each.start : each.end] == each.text for each in found.sentences)


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
        ("fruits:\n  - apple\n  - pear\nowner: Lena\n", ["fruits apple", "fruits pear", "owner Lena"]),
        ("产品: 水壶\n规格:\n  容量: 1.7\n", ["产品 水壶", "产品 水壶 规格 容量 1.7"]),
        ("name: kettle\nprice: 20\ncolour: red\n", ["name kettle", "name kettle price 20", "name kettle colour red"]),
        (
            '---\nname: kettle\n"specs":\n  price: 20 # euros\n  note: |\n    rinse first\n',
            ["name kettle", "name kettle specs price 20", "name kettle specs note rinse first"],
        ),
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


@pytest.mark.parametrize(("text", "count"), [(LOG, 3), (CODE, 4), *OTHER_LINES])
def test_lines_of_logs_and_code_stay_lines(text: str, count: int) -> None:
    assert len(split_context(text).sentences) == count


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
        "user: hi\nassistant: hello\nuser: good day",
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
        ("The connection to db-02.internal was refused on worker-7.", ("worker-7",)),
        # Nothing that the log has: other measures see to that.
        ("The queue holds 9 items.", ()),
        # Each clause has its own line.
        ("worker-7 started with pid 4411, and worker-3 restarted with pid 4427.", ()),
    ],
)
def test_a_number_or_identifier_of_another_line_is_misplaced(claim: str, misplaced: tuple[str, ...]) -> None:
    facts = ExactFacts(LOG.splitlines())

    assert tuple(each.partition(" ")[0] for each in facts.find_misplaced(claim)) == misplaced


@pytest.mark.parametrize(("claim", "misplaced"), [("海淀店库存数量6。", ()), ("朝阳店库存数量6。", ("6",))])
def test_a_number_between_chinese_words_belongs_to_its_line(claim: str, misplaced: tuple[str, ...]) -> None:
    text = '{"库存": [{"门店": "海淀店", "数量": 6}, {"门店": "朝阳店", "数量": 0}]}'

    found = ExactFacts(split_context(text).readings.values()).find_misplaced(claim)

    assert tuple(each.partition(" ")[0] for each in found) == misplaced


def test_deep_and_unpaired_json_is_a_text_as_any_other() -> None:
    for text in ("[" * 10_000 + "]" * 10_000, '{"a": ' * 500 + "1" + "}" * 500, '["a"' * 1_000 + "]"):
        assert split_context(text).readings == {}
