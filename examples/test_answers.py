"""A gate in pytest: `pytest examples/test_answers.py`. The plugin comes with the light install.

The service is that of PLUMBLINE_URL; without one, the answers are judged in this process.
"""

from typing import Any

import pytest

PASSAGES = [
    "The Marlow Bridge was opened in 1931. It is 412 metres long.",
    "The ferry to Hallam leaves at 7:40 every day.",
]


def my_rag_app(question: str) -> tuple[str, list[str]]:
    """Stand in for your app: return the answer and the passages that it retrieved."""
    passage = PASSAGES[0] if "bridge" in question.lower() else PASSAGES[1]
    return passage.split(". ")[0].rstrip(".") + ".", [passage]


@pytest.mark.parametrize("question", ["When was the bridge opened?", "When does the ferry leave?"])
def test_an_answer_is_faithful_to_its_passages(plumbline: Any, question: str) -> None:
    answer, passages = my_rag_app(question)

    plumbline.assert_faithful(answer, passages, question=question, tiers=["lexical"])


def test_an_invented_sentence_is_found(plumbline: Any) -> None:
    answer, passages = my_rag_app("When was the bridge opened?")

    with pytest.raises(AssertionError, match="not supported"):
        plumbline.assert_faithful(
            answer + " Penguins sell the tickets on Tuesdays.", passages, tiers=["lexical"], threshold=0.9
        )
