"""Parts of the pages: pasted samples, words in two languages."""

import json
import re
import tomllib
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.service.web.pages import PARTS
from plumbline.service.web.playground import load_samples, parse_pasted
from tests.making.cases import load_cases


@pytest.mark.parametrize("pasted", load_cases("pages", "formats", inner=list))
def test_a_sample_is_read_from_the_formats_that_people_have(pasted: dict[str, Any]) -> None:
    sample = parse_pasted(json.dumps(pasted))

    assert (sample.question, sample.contexts, sample.answer) == ("When?", ("It opened in 1931.",), "In 1931.")


@pytest.mark.parametrize(("pasted", "said"), [*load_cases("pages", "no_samples"), ("[" * 100_000, "too deep")])
def test_json_that_is_no_sample_says_what_was_found(pasted: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as caught:
        parse_pasted(pasted)

    assert caught.value.place == "JSON"


def test_both_languages_have_the_same_words_and_samples() -> None:
    english, chinese = (
        tomllib.loads((PARTS / f"words.{language}.toml").read_text(encoding="utf-8")) for language in ("en", "zh")
    )

    # Titles of problems are English in their own answer.
    assert set(english) == {name for name in chinese if not name.startswith("problem_")}
    assert list(load_samples("en")) == list(load_samples("zh"))
    assert len(load_samples("en")) == 6
