"""Calls and tokens in of a sample with five metrics, against faithfulness alone.

    python benchmarks/metric_costs.py [ROWS]

The rows are `tests/data/everyday.jsonl`, the judge is scripted and right on them: in a faithful answer each sentence is
supported by the context sentence that covers it best, in another the sentence covered least is contradicted. What it
is asked for besides it gives whole, with evidence. Second looks are those that our own checks of such replies ask for.
The reference is made of the first sentences of the contexts, two at most. Tokens are those of the WordPiece of the
bundled MiniLM, over system and user message of every call; the schema is not counted.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.judge_tokens import ROWS, claims_of, slim, wordpiece
from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier, PromptSet
from plumbline.judging.tiers.metrics import find_metrics
from plumbline.judging.tiers.questions import PromptLibrary
from plumbline.judging.tiers.tier import JudgeOptions

PROMPTS = PromptSet(PromptLibrary("verify_claims", "v3"), PromptLibrary("check_claims", "v3"))
SETS = {
    "faithfulness": ("faithfulness",),
    "five": ("faithfulness", "answer_relevance", "context_relevance", "context_precision@3", "context_utilization"),
    "five with a reference": (
        *("faithfulness", "answer_relevance", "context_recall", "correctness", "noise_sensitivity"),
    ),
}


class RightJudge:
    """A ChatModel that is right on the answer of one row, and gives each list that it is asked for."""

    name, model, variant, context_tokens = "default", "scripted", "", 1_000_000

    def __init__(self, row: dict[str, Any], count: Callable[[str], int]) -> None:
        sample = segment(Sample(row["question"], tuple(row["contexts"]), row["answer"]))
        self._claims: dict[int, tuple[str, dict[str, Any]]] = {}
        for number, (text, claim) in enumerate(claims_of(row, sample), start=1):
            match = sample.index.best_match(text, frozenset(content_words(text)))
            quotes = [match.sentence.text] if match else []
            self._claims[number] = text, slim(text, {**claim, "quotes": quotes})
        self._count = count
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        ledger.add_call(prompt_tokens=None, completion_tokens=None, cached_tokens=None, cost=None)
        self.calls[request.schema_name] += 1
        self.tokens[request.schema_name] += self._count(request.system + "\n" + request.user)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        members = request.schema["properties"]
        assert isinstance(members, dict)
        lists = {name: self._list(name, data) for name in members if name not in ("sentences", "claims")}
        if request.schema_name == "verify_claims":
            said = [{"id": number, "claims": [self._claims[int(str(number))][1]]} for number in request.ids["id"]]
            lists = {"sentences": said, **lists}
        elif request.schema_name == "check_claims":
            lists["claims"] = [self._again(each) for each in data["claims"]]
        return ChatReply(json.dumps(lists, ensure_ascii=False), self.model)

    def _again(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = [claim for text, claim in self._claims.values() if text == asked["text"]]
        return {"id": asked["id"], **(found[0] if found else {"quotes": [], "verdict": "not_mentioned"})}

    def _list(self, name: str, data: dict[str, Any]) -> list[dict[str, Any]]:
        contexts = [(each["id"], each["text"]) for each in data.get("contexts", ())]
        reference = [(each["id"], each["text"]) for each in data.get("reference", ())]
        numbers = [each["id"] for each in data.get("answer", ()) if "id" in each]
        items: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "question_parts": lambda: [
                {"part": data["question"], "answered_by": numbers[:1], "answered": "fully" if numbers else "no"}
            ],
            "passages": lambda: [
                {"context": at, "quote": " ".join(text.split()[:10])[:60], "relevance": "relevant"}
                for at, text in contexts
            ],
            "reference_in_answer": lambda: [
                {"reference": at, "fact": text, "stated_by": [], "in_answer": "missing"} for at, text in reference
            ],
            "reference_in_contexts": lambda: [
                {"reference": at, "fact": text, "quote": text, "in_contexts": "found"} for at, text in reference
            ],
            "claims_by_reference": lambda: [
                {"claim_id": each["id"], "quote": "", "by_reference": "not_mentioned"} for each in data["claims"]
            ],
        }
        return items[name]()

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "scripted: nowhere")


def main() -> None:
    parser = argparse.ArgumentParser(description="Calls and tokens of five metrics against faithfulness alone.")
    parser.add_argument("rows", type=Path, nargs="?", default=ROWS)
    rows = [json.loads(line) for line in parser.parse_args().rows.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if segment(Sample(row["question"], tuple(row["contexts"]), row["answer"])).needs_judge]
    count = wordpiece()
    executor = InlineExecutor()
    alone: dict[str, int] = {}
    for language in ("en", "zh"):
        chosen = [row for row in rows if row["lang"] == language]
        for name, metrics in SETS.items():
            calls: Counter[str] = Counter()
            tokens: Counter[str] = Counter()
            statuses: Counter[str] = Counter()
            for row in chosen:
                judge = RightJudge(row, count)
                spoken = [each.text for text in row["contexts"] for each in split_sentences(text)[:1]]
                sample = Sample(row["question"], tuple(row["contexts"]), row["answer"], " ".join(spoken[:2]))
                scorer = Scorer(JudgeCascade([LlmTier({"default": judge}, PROMPTS, executor)]), executor)
                result = asyncio.run(scorer.score(sample, JudgeOptions(metrics=find_metrics(metrics))))
                statuses.update(each.status.value for each in result.metrics)
                calls += judge.calls
                tokens += judge.tokens
            total, rows_asked = sum(tokens.values()), len(chosen)
            alone.setdefault(language, total)
            print(
                f"{language} {name}: {sum(calls.values()) / rows_asked:.3f} calls, {total / rows_asked:.0f} tokens,"
                f" {total / alone[language]:.2f}x; {dict(calls)} {dict(tokens)} {dict(statuses)}"
            )


if __name__ == "__main__":
    main()
