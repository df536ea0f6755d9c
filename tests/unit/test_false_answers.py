"""80 false answers in 20 kinds, half Chinese, and their faithful twins, before judges that are honest, lazy, won over.

The texts are `tests/data/false_answers.jsonl`, written for this: `lie` is what no context says.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import keyed_mark, load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat

Row = Mapping[str, Any]
ROWS: Sequence[Row] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "false_answers.jsonl").read_text(encoding="utf-8").splitlines()
]
PROMPTS = load_prompts()
_SENTENCE = re.compile(r"[^.。]+(?:[.。]|\Z)")
_REMARK = re.compile(r"[?？]|I hope|希望对您|do not state|资料没有提到")
# Flags of a claim or result by which a reader is warned.
_WARNINGS = {
    "control_failed",
    "support_doubtful",
    "no_claim_doubtful",
    "claims_incomplete",
    "disputed",
    "tiers_disagree",
}

Verdict = dict[str, Any]
# From the texts asked about and the sentences of the contexts to verdicts, in the order of the texts.
Judge = Callable[[Row, Sequence[str], Sequence[str], bool], list[Verdict]]


def _nearest(text: str, known: Sequence[str]) -> str:
    words = set(content_words(text))
    return max(known, key=lambda each: (len(words.intersection(content_words(each))), -len(each)))


def honest(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    """Knows the lie; of the sentences that are not the answer's only those that a context has are true."""

    def verdict(text: str) -> Verdict:
        quotes = [_nearest(text, known)]
        if row["lie"] in text:
            if text.endswith(("?", "？")) and not is_second:
                return {"verdict": "not_a_claim"}
            return {"quotes": quotes, "reason": "so", "verdict": "contradicted"}
        if (
            _REMARK.search(text)
            and "412" not in text
            and "10 mg" not in text
            and "青岛" not in text
            and "42" not in text
        ):
            return {"verdict": "not_a_claim"}
        is_own = text in row["answer"] or text in row["twin"]
        return {"quotes": quotes, "verdict": "supported" if is_own or text in "".join(known) else "contradicted"}

    return [verdict(text) for text in texts]


def off_by_one(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    """Gives each text the verdict on the one before."""
    said = honest(row, texts, known, is_second)
    return [said[0], *said[:-1]]


def lazy(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    return [{"quotes": [known[0]], "verdict": "supported"} for _ in texts]


def won_over(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    return [{"quotes": [_nearest(text, known)], "verdict": "supported"} for text in texts]


def silent(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    """Says of whatever is false that it is no claim."""
    said = honest(row, texts, known, is_second)
    return [{"verdict": "not_a_claim"} if each["verdict"] == "contradicted" else each for each in said]


class JudgingChat(ScriptedChat):
    """A chat model that answers about one row as a judge does."""

    def __init__(self, row: Row, judge: Judge, name: str) -> None:
        super().__init__("", name=name)
        self._row, self._judge = row, judge

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        known = [each.strip() for text in self._row["contexts"] for each in _SENTENCE.findall(text)]
        asked = [each for each in data.get("claims", data["answer"]) if "id" in each]
        said = self._judge(self._row, [each["text"] for each in asked], known, "claims" in data)
        items = [{"id": each["id"], **verdict} for each, verdict in zip(asked, said, strict=True)]
        if "claims" not in data:
            items = [{"id": item.pop("id"), "claims": [item]} for item in items]
        return ChatReply(json.dumps({"claims" if "claims" in data else "sentences": items}), self.name)


@cache
def _results(judges: tuple[Judge, ...], field: str, has_controls: bool = True) -> list[SampleResult]:
    async def score() -> list[SampleResult]:
        found = []
        for row in ROWS:
            chats = {
                f"judge-{number}": JudgingChat(row, judge, f"judge-{number}") for number, judge in enumerate(judges)
            }
            tier = LlmTier(chats, PROMPTS, InlineExecutor(), mark=keyed_mark(b"test"), has_controls=has_controls)
            scorer = Scorer(JudgeCascade([tier]), InlineExecutor())
            options = JudgeOptions(judges=tuple(chats) if len(chats) > 1 else ())
            found.append(await scorer.score(Sample(row["question"], tuple(row["contexts"]), row[field]), options))
        return found

    return asyncio.run(score())


def _passing(results: Sequence[SampleResult]) -> list[str]:
    return [row["id"] for row, result in zip(ROWS, results, strict=True) if result.passed]


def _without_warning(results: Sequence[SampleResult]) -> list[str]:
    return [
        row["id"]
        for row, result in zip(ROWS, results, strict=True)
        if result.passed
        and _WARNINGS.isdisjoint([*result.flags, *(flag for each in result.claims for flag in each.flags)])
    ]


def _scoring_one_on_an_unrelated_quote(results: Sequence[SampleResult]) -> list[str]:
    return [
        row["id"]
        for row, result in zip(ROWS, results, strict=True)
        if result.scores is not None
        and result.scores.faithfulness == 1.0
        and any(
            not any(set(content_words(claim.text)) & set(content_words(each.quote)) for each in claim.evidence)
            for claim in result.claims
            if claim.is_checkable
        )
    ]


def test_there_are_eighty_false_answers_of_twenty_kinds_half_of_them_chinese() -> None:
    assert len(ROWS) == 80
    assert len({row["kind"] for row in ROWS}) == 20
    assert sum(row["lang"] == "zh" for row in ROWS) == 40


def test_before_an_honest_judge_all_false_answers_fail_and_their_twins_pass() -> None:
    false, twins = _results((honest,), "answer"), _results((honest,), "twin")

    assert _passing(false) == []
    assert len(_passing(twins)) >= 78
    # At most 1.1 calls a sample.
    assert sum(result.usage.calls for result in (*false, *twins)) <= 1.1 * 160


def test_before_a_judge_that_is_off_by_one_none_passes() -> None:
    assert _passing(_results((off_by_one,), "answer")) == []


@pytest.mark.parametrize("judge", [lazy, won_over, silent])
def test_a_judge_that_is_lazy_or_won_over_gets_no_false_answer_through(judge: Judge) -> None:
    results = _results((judge,), "answer")

    assert _passing(results) == []
    assert all("control_failed" in result.flags for result in results)
    assert _scoring_one_on_an_unrelated_quote(results) == []


def test_without_controls_the_bound_alone_stops_a_third_of_what_a_careless_judge_supports() -> None:
    results = _results((lazy,), "answer", has_controls=False)

    assert len(_passing(results)) <= 45
    assert len(_without_warning(results)) <= 20
    assert _scoring_one_on_an_unrelated_quote(results) == []


@pytest.mark.parametrize("judge", [lazy, won_over, silent])
@pytest.mark.parametrize("has_controls", [True, False])
def test_with_a_second_judge_that_disagrees_every_false_answer_is_flagged(judge: Judge, has_controls: bool) -> None:
    results = _results((judge, honest), "answer", has_controls)

    assert _passing(results) == []
    assert all("tiers_disagree" in result.flags for result in results)
