"""Items of a JSON list as they were written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.service.api.json_body import row_texts

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    rows=st.lists(_VALUES, max_size=4),
    before=st.dictionaries(st.text().filter(lambda name: name != "rows"), _VALUES, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    is_ascii=st.booleans(),
)
def test_every_item_is_found_and_stands_in_one_line(
    rows: list[object], before: dict[str, object], indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps({**before, "rows": rows, "after": ["rows"]}, indent=indent, ensure_ascii=is_ascii)

    found = list(row_texts(text, "rows"))

    assert [json.loads(each) for each in found] == rows
    assert not any("\n" in each or "\r" in each for each in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", []),
        (' {"a" : 1 }', []),
        ('{"rows":[]}', []),
        ('{"a\\"rows" : [1] ,\r\n"rows" : [ ]}', []),
        ('\n{"r\\u006fws":[ {"a": 1, "a": 2}\t,\n[1,\r\n2] ]}', ['{"a": 1, "a": 2}', "[1,  2]"]),
        ('{"rows":["\\ud800", NaN, ' + "1" * 5_000 + "]}", ['"\\ud800"', "NaN", "1" * 5_000]),
    ],
)
def test_items_are_as_they_were_written(text: str, found: list[str]) -> None:
    assert list(row_texts(text, "rows")) == found
