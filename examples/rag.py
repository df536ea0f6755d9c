"""A RAG app that judges each answer before it shows it, and retries once with what was unsupported.

The three steps are plain functions, so that this runs offline. With LangChain wrap them:

    chain = RunnableLambda(retrieve) | RunnableLambda(answer) | RunnableLambda(check)
    chain.invoke({"question": "When does the ferry leave?"})
"""

import os
import re
from typing import Any

from plumbline import Plumbline

URL = os.environ.get("PLUMBLINE_URL", "http://127.0.0.1:8000")
PASSAGES = (
    "The ferry to Hallam leaves at 7:40 every day, and at 9:15 on Sundays.",
    "The Marlow Bridge was opened in 1931. It is 412 metres long.",
    "The museum of Ostrow shows maps and instruments of the old harbour.",
)


def retrieve(state: dict[str, Any]) -> dict[str, Any]:
    """Add the two passages that share the most words with the question."""
    words = set(re.findall(r"\w+", state["question"].lower()))
    ranked = sorted(PASSAGES, key=lambda passage: -len(words & set(re.findall(r"\w+", passage.lower()))))
    return {**state, "contexts": ranked[:2]}


def answer(state: dict[str, Any]) -> dict[str, Any]:
    """Stand in for an LLM: the first try is talkative, the second one keeps to the passage."""
    text = state["contexts"][0]
    return {**state, "answer": text if "avoid" in state else f"{text} Tickets are half price for children."}


def check(state: dict[str, Any]) -> dict[str, Any]:
    """Judge the answer; name what no context supports."""
    with Plumbline(URL) as client:
        result = client.evaluate(
            question=state["question"], contexts=state["contexts"], answer=state["answer"], tiers=["lexical"]
        )
    avoid = [claim.text for claim in result.claims if claim.verdict != "supported"]
    return {**state, "is_faithful": not avoid, "avoid": avoid}


def main() -> None:
    """Answer one question, and show what happened."""
    state = check(answer(retrieve({"question": "When does the ferry to Hallam leave?"})))
    if not state["is_faithful"]:
        print("not shown:", *state["avoid"])
        state = check(answer(state))
    print("shown:", state["answer"] if state["is_faithful"] else "I could not find this in the documents.")


if __name__ == "__main__":
    main()
