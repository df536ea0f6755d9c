"""Calls and tokens in of a sample with five metrics, against faithfulness alone, and what second calls are asked for.

    python benchmarks/metric_costs.py [ROWS] [--each N] [--seed SEED]

The rows are `tests/data/everyday.jsonl`, or human-labelled ones, of which `--each` draws N faithful and N unfaithful
ones a set. The judge is scripted and right by the label: in a faithful answer each sentence is supported by the context
sentence that covers it best; in another the wrong ones are contradicted by theirs, or not mentioned where no context
has a word of them. Wrong are the sentences that the faithful twin of the row does not have; without a twin, the one
covered least. A sentence without a word of the contexts ("Yes.", "27") is quoted by its question, or, where that has
none either ("You're welcome."), no claim. What it is asked for besides it gives whole, with evidence. The reference is
made of the first sentences of the contexts, two at most. Tokens are those of the WordPiece of the bundled MiniLM, over
system and user message of every call; the schema is not counted.

Of a paraphrase the sentence that covers it best may be a bad quote, and a label may fall on an answer whose every
sentence some context has word for word: a model would quote better, and not accuse. Such calls are told by their doubt.
"""

import argparse
import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.judge_tokens import ACCUSED, ROWS, slim, wordpiece
from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import Match, SegmentedSample, segment
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


def _sample(row: dict[str, Any], reference: str | None = None) -> Sample:
    return Sample(row["question"], tuple(row["contexts"]), row["answer"], reference)


def right_claims(row: dict[str, Any], twin: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each checkable sentence with a right judge's claim about it; `twin` is the same answer, but faithful."""
    sample = segment(_sample(row))
    sentences = [sample.sentences[position].text for position in sample.checkable]
    matches = [_match(sample, text) for text in sample.assertions]
    least = min((match.share if match else 0.0 for match in matches), default=0.0)
    for text, assertion, match in zip(sentences, sample.assertions, matches, strict=True):
        covered = match.share if match else 0.0
        is_right = row["label"] or (covered > least if twin is None else text in twin)
        quoted = match or _match(sample, f"{row['question']} {assertion}")
        verdict = "supported" if is_right else "contradicted" if match else "not_mentioned"
        if is_right and quoted is None:
            verdict = "not_a_claim"
        claim = {
            "claim": text,
            "quotes": [quoted.sentence.text] if quoted else [],
            "reason": ACCUSED[row["lang"]],
            "verdict": verdict,
        }
        yield text, slim(text, claim)


def _match(sample: SegmentedSample, text: str) -> Match | None:
    return sample.index.best_match(text, frozenset(content_words(text)))


class RightJudge:
    """A ChatModel that is right on the answer of one row, and gives each list that it is asked for.

    `asked_again` counts why second calls are made, by the doubt and what the first reply had said.
    """

    name, model, variant, context_tokens = "default", "scripted", "", 1_000_000

    def __init__(self, claims: Iterable[tuple[str, dict[str, Any]]], count: Callable[[str], int]) -> None:
        self._claims = dict(enumerate(claims, start=1))
        self._count = count
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.asked_again: Counter[str] = Counter()

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
            self.asked_again.update({self._why(*pair) for pair in zip(data["claims"], lists["claims"], strict=True)})
        return ChatReply(json.dumps(lists, ensure_ascii=False), self.model)

    def _again(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = [claim for text, claim in self._claims.values() if text == asked["text"]]
        return {"id": asked["id"], **(found[0] if found else {"quotes": [], "verdict": "not_mentioned"})}

    @staticmethod
    def _why(asked: dict[str, Any], said: dict[str, Any]) -> str:
        quoted = "quoted" if said["quotes"] else "not quoted"
        return f"{said['verdict']}, {quoted}: {asked.get('doubt', 'no doubt named')}"

    def _list(self, name: str, data: dict[str, Any]) -> list[dict[str, Any]]:
        contexts = [(each["id"], each["text"]) for each in data.get("contexts", ())]
        reference = [(each["id"], each["text"]) for each in data.get("reference", ())]
        numbers = [each["id"] for each in data.get("answer", ()) if "id" in each]
        items: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "question_parts": lambda: [
                {"part": data["question"], "answered_by": numbers[:1], "answered": "fully" if numbers else "no"}
            ],
            "passages": lambda: [
                {"context": at, "quote": each.text, "relevance": "relevant"}
                for at, text in contexts
                for each in split_sentences(text)[:1]
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


def drawn(rows: Iterable[dict[str, Any]], each: int, seed: int) -> list[dict[str, Any]]:
    """Return rows as many faithful as unfaithful of every set, `each` of either at most."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["dataset"], row["label"]].append(row)
    draw = random.Random(seed)  # noqa: S311 a draw of rows
    chosen = []
    for name in sorted({name for name, _ in groups}):
        size = min(each, *(len(groups[name, label]) for label in (0, 1)))
        chosen += [row for label in (0, 1) for row in draw.sample(groups[name, label], size)]
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description="Calls and tokens of five metrics against faithfulness alone.")
    parser.add_argument("rows", type=Path, nargs="?", default=ROWS)
    parser.add_argument("--each", type=int, help="faithful and unfaithful rows drawn from every set; default: all rows")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.rows.read_text(encoding="utf-8").splitlines()]
    twins = {row["pair"]: row["answer"] for row in rows if "pair" in row and row["label"]}
    if arguments.each:
        rows = drawn(rows, arguments.each, arguments.seed)
    rows = [row for row in rows if segment(_sample(row)).needs_judge]
    count = wordpiece()
    executor = InlineExecutor()
    alone: dict[str, int] = {}
    for language in ("en", "zh"):
        chosen = [row for row in rows if row["lang"] == language]
        for name, metrics in SETS.items():
            calls: Counter[str] = Counter()
            tokens: Counter[str] = Counter()
            statuses: Counter[str] = Counter()
            again: dict[int, Counter[str]] = {0: Counter(), 1: Counter()}
            for row in chosen:
                judge = RightJudge(right_claims(row, twins.get(row.get("pair"))), count)
                spoken = [each.text for text in row["contexts"] for each in split_sentences(text)[:1]]
                sample = _sample(row, "\n".join(spoken[:2]))
                scorer = Scorer(JudgeCascade([LlmTier({"default": judge}, PROMPTS, executor)]), executor)
                result = asyncio.run(scorer.score(sample, JudgeOptions(metrics=find_metrics(metrics))))
                statuses.update(each.status.value for each in result.metrics)
                calls += judge.calls
                tokens += judge.tokens
                again[row["label"]] += judge.asked_again
            total, rows_asked = sum(tokens.values()), len(chosen)
            alone.setdefault(language, total)
            print(
                f"{language} {name}: {sum(calls.values()) / rows_asked:.3f} calls, {total / rows_asked:.0f} tokens,"
                f" {total / alone[language]:.2f}x; {dict(calls)} {dict(tokens)} {dict(statuses)}"
            )
            if name == "faithfulness":
                for label, reasons in again.items():
                    told = "; ".join(f"{reason}: {number}" for reason, number in reasons.most_common())
                    print(f"    {'faithful' if label else 'unfaithful'} rows asked again for {told or 'nothing'}")


if __name__ == "__main__":
    main()
