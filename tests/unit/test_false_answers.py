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
from plumbline.ground.errors import FailureReason
from plumbline.judging.judge.metrics import find_metrics
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.models import ChatModel
from plumbline.judging.sample_result import SampleResult, SampleStatus
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from tests.doubles.fakes import ScriptedChat

Row = Mapping[str, Any]
ROWS: Sequence[Row] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "false_answers.jsonl").read_text(encoding="utf-8").splitlines()
]
PROMPTS = load_prompts()
_SENTENCE = re.compile(r"[^.。]+(?:[.。]|\Z)")
_REMARK = re.compile(r"[?？]|I hope|希望对您|do not state|资料没有提到")
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


def off_by_one_back(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    """Gives each text the verdict on the one behind."""
    said = honest(row, texts, known, is_second)
    return [*said[1:], said[-1]]


def won_over_on_the_lie(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    """Supports the lie, and is honest on whatever else."""
    said = honest(row, texts, known, is_second)
    quotes = {text: [_nearest(text, known)] for text in texts}
    return [
        {"quotes": quotes[text], "verdict": "supported"} if row["lie"] in text else each
        for text, each in zip(texts, said, strict=True)
    ]


def lazy(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    return [{"quotes": [known[0]], "verdict": "supported"} for _ in texts]


def won_over(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    return [{"quotes": [_nearest(text, known)], "verdict": "supported"} for text in texts]


def silent(row: Row, texts: Sequence[str], known: Sequence[str], is_second: bool) -> list[Verdict]:
    """Says of whatever is false that it is no claim."""
    said = honest(row, texts, known, is_second)
    return [{"verdict": "not_a_claim"} if each["verdict"] == "contradicted" else each for each in said]


def replies_of(judge: Judge, row: Row, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the judge's reply on what the data of a request asks about."""
    known = [each.strip() for text in row["contexts"] for each in _SENTENCE.findall(text)]
    asked = data.get("claims") or [each for each in (*data["answer"], *data.get("statements", ())) if "id" in each]
    said = judge(row, [each["text"] for each in asked], known, "claims" in data)
    items = [{"id": each["id"], **verdict} for each, verdict in zip(asked, said, strict=True)]
    return {"claims" if "claims" in data else "sentences": items}


class JudgingChat(ScriptedChat):
    """A chat model that answers about one row as a judge does."""

    def __init__(self, row: Row, judge: Judge, name: str) -> None:
        super().__init__("", name=name)
        self._row, self._judge = row, judge

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        return ChatReply(json.dumps(replies_of(self._judge, self._row, data)), self.name)


METRICS = find_metrics(["answer_relevance", "context_relevance"])


def _score(row: Row, field: str, chats: Mapping[str, ChatModel], options: JudgeOptions, **tier: Any) -> SampleResult:
    llm = LlmTier(chats, PROMPTS, InlineExecutor(), has_controls=True, **tier)
    scorer = Scorer(JudgeCascade([llm]), InlineExecutor())
    return asyncio.run(scorer.score(Sample(row["question"], tuple(row["contexts"]), row[field]), options))


def _chat(row: Row, judge: Judge, name: str = "first") -> dict[str, ChatModel]:
    return {name: JudgingChat(row, judge, name)}


@cache
def _results(judge: Judge, field: str, threshold: float | None = None, has_metrics: bool = False) -> list[SampleResult]:
    options = JudgeOptions(threshold=threshold, metrics=METRICS if has_metrics else ())
    return [_score(row, field, _chat(row, judge), options) for row in ROWS]


def _passing(results: Sequence[SampleResult]) -> list[str]:
    return [row["id"] for row, result in zip(ROWS, results, strict=True) if result.passed]


def test_there_are_eighty_false_answers_of_twenty_kinds_half_of_them_chinese() -> None:
    assert len(ROWS) == 80
    assert len({row["kind"] for row in ROWS}) == 20
    assert sum(row["lang"] == "zh" for row in ROWS) == 40


@pytest.mark.parametrize("has_metrics", [False, True])
def test_an_honest_judge_is_believed_in_every_verdict(has_metrics: bool) -> None:
    false, twins = (_results(honest, field, None, has_metrics) for field in ("answer", "twin"))

    assert _passing(false) == []
    assert len(_passing(twins)) == 80
    assert all(result.tier is TierName.LLM for result in (*false, *twins))
    # A question that asserts is asked for twice, and metrics that this judge leaves out.
    assert sum(result.usage.calls for result in (*false, *twins)) <= (2.1 if has_metrics else 1.05) * 160


@pytest.mark.parametrize("has_metrics", [False, True])
@pytest.mark.parametrize("threshold", [None, 0.0, 0.5])
@pytest.mark.parametrize("judge", [lazy, won_over, silent, off_by_one, off_by_one_back])
def test_a_judge_that_fails_its_controls_judges_nothing(
    judge: Judge, threshold: float | None, has_metrics: bool
) -> None:
    results = _results(judge, "answer", threshold, has_metrics)

    assert {result.status for result in results} == {SampleStatus.NOT_JUDGED}
    assert _passing(results) == []
    assert {attempt.reason for result in results for attempt in result.attempts} == {FailureReason.CONTROLS_FAILED}


def test_a_lie_on_one_subject_alone_is_caught_by_a_second_judge() -> None:
    options = JudgeOptions(escalation="second")
    alone = _results(won_over_on_the_lie, "answer")
    both = [
        _score(row, "answer", _chat(row, won_over_on_the_lie) | _chat(row, honest, "second"), options) for row in ROWS
    ]

    # Of the lies that pass a single judge, flags of code mark a part only.
    flagged = [row for row in alone if row.passed and any(claim.flags for claim in row.claims)]
    assert len(_passing(alone)) == 80
    assert len(flagged) >= 25
    assert _passing(both) == []
    assert all({"escalated", "tiers_disagree"} <= set(result.flags) for result in both)


@pytest.mark.parametrize("judge", [lazy, won_over, silent, off_by_one])
def test_a_second_judge_that_fails_its_controls_has_no_say(judge: Judge) -> None:
    options = JudgeOptions(escalation="second")
    results = [_score(row, "twin", _chat(row, honest) | _chat(row, judge, "second"), options) for row in ROWS[:20]]

    assert all(result.passed for result in results)
    assert all("judge second did not vote (controls_failed)" in result.warnings for result in results)
