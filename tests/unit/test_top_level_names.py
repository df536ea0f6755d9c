"""`plumbline.evaluate` judges an answer; those of `plumbline.retrieval` measure rankings."""

import subprocess
import sys

import pytest

import plumbline
import plumbline.retrieval

_CONTEXTS = ["The Marlow lighthouse is 41 metres high."]


def test_evaluate_at_the_top_judges_an_answer_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLUMBLINE_URL", "DASHSCOPE_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    result = plumbline.evaluate(contexts=_CONTEXTS, answer="It is 65 metres high.", tiers=["lexical"])

    assert (result.tier, result.passed) == ("lexical", False)


@pytest.mark.parametrize("name", ["evaluate", "compare", "fuse"])
def test_a_measure_is_a_function_however_modules_were_imported(name: str) -> None:
    code = (
        f"import plumbline.retrieval.comparison, plumbline.retrieval.fusion\nprint(plumbline.retrieval.{name}.__name__)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == f"{name}\n"


@pytest.mark.parametrize("name", ["compare", "fuse"])
def test_a_name_that_moved_says_where_it_is(name: str) -> None:
    with pytest.raises(AttributeError, match=f"it is plumbline.retrieval.{name} since 0.3"):
        getattr(plumbline, name)


def test_the_import_loads_nothing_of_what_is_used_later() -> None:
    heavy = "{'numpy', 'openai', 'nltk', 'sqlalchemy', 'pydantic', 'httpx2'}"
    code = f"import sys, plumbline, plumbline.retrieval\nprint({heavy} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
