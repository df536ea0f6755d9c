"""Measure our check, bounds and a chat judge on scripted decision models, with labelled rows over loopback.

    python -m benchmarks.decision_judges DEV.jsonl [RAGTRUTH_DEV.jsonl] [--rows 1000] [--labels 200] [--seeds 10]

The models know the labels and err by a stated rule, seeded by sentence, so that each gives the same answer to the
same question. `calibrated`: right with probability c, and says c; c is .5 + .5 Beta(1.6, .4), .9 on average. `even`:
the same with Beta(3.2, .8), which knows less of its errors. `bold`: as `calibrated`, but says c sharpened to
sigmoid(2 logit c). `blind`: right on all but false numbers, dates, names and negations, which it supports with .95.
`lost`: as `calibrated`, and names a wrong passage in 56 of 100 cases. `yes`: supports everything with .95. All but
`yes` get controls right in 99 of 100 cases: copies, and changed numbers. The chat judge is right in 95 of 100
sentences. Tokens are characters / 4; prices a million: .1 for decisions, .5 and 2 for chat. The last line is JSON.
"""

import argparse
import asyncio
import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decision_world import World, WorldRow, interval, place, plant, read_rows
from plumbline.assembly import build, make_plan
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.judge.evidence.verdict_rules import REFUTED, UNANSWERED_QUESTION
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.rows.report.rates import FoundBounds, choose_bounds
from tests.doubles.scripted_decisions import AskedQuestion, decide, lean
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion

_MODELS = ("calibrated", "even", "bold", "blind", "lost", "yes")
_PRICES = {"decision-1": {"input": 0.1, "output": 0.0}, "chat-1": {"input": 0.5, "output": 2.0}}
_CONTROLS_RIGHT, _CHAT_RIGHT, _SURE, _RIGHT_PLACE = 0.99, 0.95, 0.95, 0.44
_BLIND_TO = ("number", "date", "name", "negation")
# Of what a model is sure: with more or fewer sentences that it can hardly tell, .9 on average in both cases.
_SPREAD, _EVEN = (1.6, 0.4), (3.2, 0.8)
_DATA = re.compile(r"^\{.*\}$", re.MULTILINE)
_AT_ONCE = 16


def draw_for(*parts: str) -> random.Random:
    """Return draws that depend on these texts alone."""
    return random.Random(hashlib.sha256("\0".join(parts).encode()).hexdigest())  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class SeededModel:
    """A decision model that knows the world and errs by the rule of its name."""

    name: str
    world: World
    seed: int

    def __call__(self, asked: AskedQuestion) -> Mapping[str, float]:
        contexts = asked.contexts
        draw = draw_for(str(self.seed), asked.statement, *contexts.values())
        if self.name == "yes":
            return lean(asked, "supported", _SURE)
        sure = 0.5 + 0.5 * draw.betavariate(*(_EVEN if self.name == "even" else _SPREAD))
        is_right = draw.random() < sure
        known = self.world.find(asked.statement, list(contexts.values()))
        if known is None:
            truth, kind, sure = any(asked.statement.strip() in text for text in contexts.values()), "control", _SURE
            is_right = draw.random() < _CONTROLS_RIGHT
        else:
            truth, kind = known
        if self.name == "blind" and known is not None:
            is_right, sure = truth or kind not in _BLIND_TO, _SURE
        said = truth if is_right else not truth
        if not asked.is_verdict:
            return self._place(asked, said, draw)
        if self.name == "bold":
            sure = sure**2 / (sure**2 + (1 - sure) ** 2)
        return lean(asked, "supported" if said else "not_mentioned", sure)

    def _place(self, asked: AskedQuestion, said: bool, draw: random.Random) -> Mapping[str, float]:
        best = place(asked.statement, asked.contexts) if said else None
        others = [each for each in asked.values if each not in (best, "none")]
        if self.name == "lost" and best and others and draw.random() > _RIGHT_PLACE:
            best = str(draw.choice(others))
        return lean(asked, best or "none", 0.8)


@dataclass(frozen=True, slots=True)
class SeededChat:
    """A chat judge that is right in 95 of 100 sentences of the world, and gets controls right."""

    world: World
    seed: int

    def __call__(self, request: RecordedRequest) -> Reply:
        found = _DATA.search(request.json["messages"][1]["content"])
        data = json.loads(found[0]) if found else {}
        name, asked = ("claims", data["claims"]) if "claims" in data else ("sentences", data.get("answer", []))
        contexts = [each["text"] for each in data.get("contexts", [])]
        verdicts = [self._verdict(each, contexts) for each in asked if "id" in each]
        content = json.dumps({name: verdicts}, ensure_ascii=False)
        return completion(content, usage=(len(request.body) // 4, len(content) // 4))

    def _verdict(self, item: Mapping[str, Any], contexts: Sequence[str]) -> dict[str, Any]:
        known = self.world.find(item["text"], contexts)
        truth = any(item["text"].strip() in text for text in contexts) if known is None else known[0]
        if known and draw_for("chat", str(self.seed), item["text"], *contexts).random() >= _CHAT_RIGHT:
            truth = not truth
        best = place(item["text"], {str(at): text for at, text in enumerate(contexts)}) or "0"
        quote = contexts[int(best)].strip()[:80] if contexts else ""
        said = {"quotes": [quote], "reason": "", "verdict": "supported"}
        return {"id": item["id"], **(said if truth else {"quotes": [], "reason": "So.", "verdict": "not_mentioned"})}


@dataclass(frozen=True, slots=True)
class Run:
    """Results of rows, and the requests and tokens that each judge was sent."""

    results: Sequence[SampleResult]
    requests: Mapping[str, int]
    tokens: Mapping[str, int]
    most_questions: int

    @property
    def cost(self) -> float:
        return sum(each.usage.cost or 0.0 for each in self.results)


async def judge_rows(
    rows: Sequence[WorldRow], model: SeededModel, *, first: str, escalation: bool = False, bounds: object = None
) -> Run:
    """Judge the rows by the decision model, or by the chat judge, in this process."""
    async with ScriptedJudge() as decisions, ScriptedJudge() as chat, AsyncExitStack() as stack:
        decisions.reply_with(decide(model))
        chat.reply_with(SeededChat(model.world, model.seed))
        entry = {"provider": "generic", "base_url": chat.base_url, "model": "chat-1", "api_key": "none"}
        settings = Settings(
            llm_provider="generic", llm_api="systemone", llm_base_url=decisions.base_url, llm_model="decision-1",
            llm_api_key="none", llm_judges={"chat": [entry]}, llm_escalation="chat" if escalation else None,
            llm_bounds=bounds, llm_prices=_PRICES, cache_ttl_seconds=0, warm_up=False, deadline_seconds=600,
        )  # fmt: skip
        scorer = build(make_plan(settings), stack).scorer
        options = JudgeOptions(
            tiers=(TierName.LLM,), judges=(first,), escalation=settings.llm_escalation, deadline_seconds=600
        )

        async def score(row: WorldRow) -> SampleResult:
            return await scorer.score(row.sample, options)

        results = [each async for each in map_concurrently(score, rows, limit=_AT_ONCE, in_order=True)]
        questions = [len(each.json["questions"]) for each in decisions.requests]
        return Run(
            results,
            {"decisions": decisions.calls, "chat": chat.calls},
            {"decisions": sum(len(each.body) // 4 for each in decisions.requests), "chat": sum(chat.tokens_served)},
            max(questions, default=0),
        )


def check_figures(rows: Sequence[WorldRow], run: Run, model: SeededModel) -> dict[str, Any]:
    """Return what the check made of `supported`: of wrong ones by kind of error, and of right ones."""
    said: Counter[str] = Counter()
    doubted: Counter[str] = Counter()
    lost = Counter(attempt.reason for each in run.results for attempt in each.attempts if attempt.reason)
    for row, result in zip(rows, run.results, strict=True):
        for claim in result.claims:
            truth = row.truths.get(claim.sentence)
            if truth is None or not _was_supported(claim.text, row, model):
                continue
            kind = "right" if truth else row.kinds.get(claim.sentence, "other")
            said[kind] += 1
            doubted[kind] += REFUTED in claim.flags
    hard = ("number", "date", "name")
    return {
        "supported": dict(said),
        "refuted": dict(doubted),
        "wrong_on_numbers_names_dates_refuted": interval(
            *(sum(each[kind] for kind in hard) for each in (doubted, said))
        ),
        "right_refuted": interval(doubted["right"], said["right"]),
        "not_judged": dict(lost),
    }


def _was_supported(statement: str, row: WorldRow, model: SeededModel) -> bool:
    contexts = [{"id": f"c{at}", "text": text} for at, text in enumerate(row.sample.contexts, start=1)]
    asked = AskedQuestion(
        "", statement, ("supported", "contradicted", "not_mentioned"), statement, {"contexts": contexts}
    )
    chances = model(asked)
    return max(chances, key=lambda value: chances[value]) == "supported"


def balanced_accuracy(rows: Sequence[WorldRow], results: Sequence[SampleResult]) -> float:
    """Return the mean of the shares of faithful rows that passed and of the others that failed; unsure is neither."""
    right: dict[int, list[bool]] = defaultdict(list)
    for row, result in zip(rows, results, strict=True):
        right[row.label].append(result.passed is not None and result.passed == bool(row.label))
    return round(sum(float(np.mean(each)) for each in right.values()) / len(right), 4)


def find_bounds(labelled: Sequence[WorldRow], labels: Run, run: Run, *, left: float) -> FoundBounds:
    """Return the bounds of `plumbline rate threshold --left` for rows of which some are labelled."""
    known = [*map(_supports, labels.results)]
    unfaithful = [1 - row.label for row in labelled]
    return choose_bounds(unfaithful, known, [*known, *map(_supports, run.results)], left=left, confidence=0.95)


def _supports(result: SampleResult) -> tuple[float, float]:
    if not result.scores:
        return 1.0, 0.0
    claims = [claim for claim in result.claims if claim.is_checkable]
    decided = [claim for claim in claims if {REFUTED, UNANSWERED_QUESTION}.isdisjoint(claim.flags)]
    lowest = round(min((claim.support or 0.0 for claim in decided), default=1.0), 4)
    return lowest, lowest if len(decided) == len(claims) else 0.0


def cascade_figures(rows: Sequence[WorldRow], both: Run, chat: Run) -> dict[str, Any]:
    """Return the cascade beside the chat judge alone."""
    ours, theirs = (balanced_accuracy(rows, each.results) for each in (both, chat))
    return {
        "balanced_accuracy": {"cascade": ours, "chat": theirs, "share": round(ours / theirs, 4)},
        "calls": round(both.requests["chat"] / chat.requests["chat"], 4),
        "cost": round(both.cost / chat.cost, 4),
        "unsure": interval(sum(each.passed is None for each in both.results), len(rows)),
    }


def usage_figures(rows: Sequence[WorldRow], run: Run, judge: str) -> dict[str, Any]:
    """Return requests, tokens and cost a row."""
    return {
        "requests": round(run.requests[judge] / len(rows), 3),
        "tokens": round(run.tokens[judge] / len(rows), 1),
        "cost_of_10,000": round(run.cost / len(rows) * 10_000, 3),
        "most_questions": run.most_questions,
    }


async def run_all(options: argparse.Namespace) -> dict[str, Any]:
    known = read_rows(options.data)
    found: dict[str, Any] = {}
    for seed in range(options.seed, options.seed + options.seeds):
        found[str(seed)] = await run_seed(known, seed, options)
    return found


async def run_seed(known: Sequence[WorldRow], seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one draw of rows and labels; those of the check for the first one alone."""
    order = draw_for(str(seed)).sample(known, len(known))
    rows, labelled = order[: options.rows], order[options.rows : options.rows + options.labels]
    marked = [row for row in known if any(kind != "other" for kind in row.kinds.values())]
    planted = list(plant(order[options.rows + options.labels :], seed=seed))[: options.rows]
    world = World([*known, *planted])
    found: dict[str, Any] = {"rows": len(rows), "labels": len(labelled), "marked": len(marked), "planted": len(planted)}
    chat = await judge_rows(rows, SeededModel("", world, seed), first="chat")
    found["chat"] = {"a row": usage_figures(rows, chat, "chat")}
    print(seed, "chat", found["chat"], flush=True)
    for name in options.model:
        model = SeededModel(name, world, seed)
        sets = {"rows": rows, "marked by people": marked, "planted": planted}
        sets = sets if seed == options.seed else {"rows": rows}
        runs = {what: await judge_rows(part, model, first="default") for what, part in sets.items()}
        found[name] = {what: check_figures(sets[what], run, model) for what, run in runs.items()}
        found[name]["a row"] = usage_figures(rows, runs["rows"], "decisions")
        for what, figures in found[name].items():
            print(seed, name, what, figures, flush=True)
        if name not in ("yes", "blind"):
            labels = await judge_rows(labelled, model, first="default")
            for left in options.left:
                chosen = find_bounds(labelled, labels, runs["rows"], left=left)
                bounds = {"fails": chosen.fails, "passes": chosen.passes, "share": chosen.share}
                both = await judge_rows(rows, model, first="default", bounds={"decision-1": bounds}, escalation=True)
                found[name][f"cascade at {left}"] = {"bounds": bounds, **cascade_figures(rows, both, chat)}
                print(seed, name, left, found[name][f"cascade at {left}"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Decision models, checked and in front of a chat judge.")
    parser.add_argument("data", type=Path, nargs="+", metavar="DEV.jsonl")
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--labels", type=int, default=200, help="rows besides these that choose the bounds")
    parser.add_argument("--left", type=float, nargs="+", default=[0.09], help="share of rows for the chat judge")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=1, help="draws of rows and labels, from --seed on")
    parser.add_argument("--model", nargs="+", choices=_MODELS, default=list(_MODELS))
    options = parser.parse_args()
    configure_logging("ERROR")
    print(json.dumps(asyncio.run(run_all(options))))


if __name__ == "__main__":
    main()
