"""Controls: sentences with a known verdict that are judged among the answer's, and what becomes of one got wrong."""

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import FailureReason
from plumbline.judging.judge.context_windows import Piece
from plumbline.judging.judge.controls import Control, draw_controls, is_right
from plumbline.judging.judge.metrics import criterion, find_metrics
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.judge.replies import ClaimReply
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from tests.doubles.fakes import AnsweringTier, ScriptedChat, case_of
from tests.making.cases import load_cases
from tests.running.batch_file_runs import ROWS, a_run

PROMPTS = load_prompts()
DATA = Path(__file__).parents[1] / "data"
CONTEXT = "The Marlow Bridge is 412 metres long. Ferries cross the river at Teal Landing."
ANSWER = "The Marlow Bridge is 412 metres long."


def _drawn(*contexts: str, answer: str = "It is long.") -> tuple[str, str]:
    """Return the false and the true control of a sample."""
    window = tuple(Piece(number, text) for number, text in enumerate(contexts, start=1))
    drawn = draw_controls(case_of(answer, *contexts), window)
    assert drawn == draw_controls(case_of(answer, *contexts), window)
    false, true = sorted(drawn.values(), key=lambda control: control.is_true)
    assert (false.is_true, true.is_true) == (False, True)
    return false.text, true.text


def test_one_control_is_copied_and_one_has_a_number_that_no_context_has() -> None:
    false, true = _drawn(CONTEXT)

    assert true == "Ferries cross the river at Teal Landing."
    assert re.fullmatch(r"The Marlow Bridge is \d+ metres long\.", false)
    assert "412" not in false


@pytest.mark.parametrize(("statement", "denial"), load_cases("controls", "denials"))
def test_a_decision_model_is_asked_about_a_statement_of_the_last_context_and_its_denial(
    statement: str, denial: str
) -> None:
    contexts = ("The old mill sold its flour to three towns.", statement)
    window = tuple(Piece(number, text) for number, text in enumerate(contexts, start=1))

    drawn = draw_controls(case_of("It is long.", *contexts), window, denies=True)

    assert {(each.text, each.is_true) for each in drawn.values()} == {(statement, True), (denial, False)}


@pytest.mark.parametrize(("context", "false"), load_cases("controls", "a_number_is_changed_to_one_as_plausible"))
def test_a_number_is_changed_to_one_as_plausible(context: str, false: str) -> None:
    texts = {_drawn(context, answer=f"It is {number}.")[0] for number in range(8)}

    assert all(re.fullmatch(false, text) and text != context for text in texts), texts


@pytest.mark.parametrize("context", load_cases("controls", "a_number_that_could_be_another_is_left_alone"))
def test_a_number_that_could_be_another_is_left_alone(context: str) -> None:
    for number in range(4):
        false, true = _drawn(context, answer=f"It is {number}.")

        assert true in context
        assert re.search("Tarvo|Brellin|Ostrik|Mavendel|塔沃镇|布雷林镇|奥斯里克镇|马文德镇", false)


def test_no_control_states_what_another_sentence_states_in_words() -> None:
    context = "The Marlow ferry carries 20 cars. The second Marlow ferry carries " + "{} cars."
    others = ("thirty", "forty", "fifty", "sixty", "seventy")
    false = {_drawn(*(context.format(word) for word in others), answer=f"It is {number}.")[0] for number in range(20)}

    assert not any(f" {number} cars" in text for text in false for number in (20, 30, 40, 50, 60, 70))


def test_other_samples_have_other_controls() -> None:
    contexts = [f"The {name} Bridge is {100 + 10 * len(name)} metres long." for name in ("Marlow", "Teal", "Harbour")]

    assert len({_drawn(*contexts, answer=f"It is {number}.") for number in range(20)}) > 5


@pytest.mark.parametrize("line", (DATA / "everyday.jsonl").read_text(encoding="utf-8").splitlines()[::6])
def test_everyday_samples_have_both_and_neither_could_be_the_other(line: str) -> None:
    row = json.loads(line)
    contexts = [each if isinstance(each, str) else each["text"] for each in row["contexts"]]
    false, true = _drawn(*contexts, answer=row["answer"])

    assert any(true in context for context in contexts)
    assert not any(false in context for context in contexts)


@pytest.mark.parametrize(("is_true", "verdicts", "expected"), load_cases("controls", "right", inner=list))
def test_a_judge_is_right_that_accuses_the_false_and_does_not_deny_the_true(
    is_true: bool, verdicts: list[str], expected: bool
) -> None:
    replies = [ClaimReply.model_validate({"verdict": verdict}) for verdict in verdicts]

    assert is_right(Control("", is_true=is_true), replies) is expected


class _Chat(ScriptedChat):
    """Gives each text the verdict that is named for it, `supported` for any other; `replies` change by the call."""

    def __init__(self, *replies: Mapping[str, str]) -> None:
        super().__init__("")
        self._said = deque(replies)

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        verdicts = self._said.popleft() if len(self._said) > 1 else self._said[0]
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        asked = data.get("claims") or [*data["answer"], *data.get("statements", ())]
        items = []
        for each in asked if verdicts.get("all") != "missing" else []:
            kind = "own" if each["text"] == ANSWER else "copy" if each["text"] in CONTEXT else "false"
            said = {"quotes": [CONTEXT[:37]], "verdict": verdicts.get(kind, "supported")}
            if said["verdict"] != "missing":
                items.append({"id": each["id"], **(said if "claims" in data else {"claims": [said]})})
        reply = json.dumps({"claims" if "claims" in data else "sentences": items})
        is_cut = verdicts.get("cut") == "yes"
        return ChatReply(reply.removesuffix("]}") if is_cut else reply, "m", is_truncated=is_cut)


HONEST = {"false": "contradicted"}


async def _result(*replies: Mapping[str, str]) -> SampleResult:
    tier = LlmTier({"default": _Chat(*replies)}, PROMPTS, InlineExecutor(), has_controls=True)
    cascade = JudgeCascade([tier, AnsweringTier(TierName.LEXICAL)])
    return await Scorer(cascade, InlineExecutor()).score(Sample("", (CONTEXT,), ANSWER), JudgeOptions())


@pytest.mark.parametrize(("replies", "calls", "right"), load_cases("controls", "believed", inner=list))
async def test_a_judge_that_gets_both_right_is_believed(
    replies: Sequence[Mapping[str, str]], calls: int, right: int
) -> None:
    result = await _result(*replies)

    assert (result.tier, result.passed) == (TierName.LLM, True)
    assert result.judge is not None
    assert (result.judge.controls, result.judge.controls_right) == (2, right)
    assert result.usage.calls == calls


@pytest.mark.parametrize("replies", load_cases("controls", "wrong", inner=list))
async def test_a_judge_that_gets_one_wrong_twice_fails_the_tier(replies: Sequence[Mapping[str, str]]) -> None:
    result = await _result(*replies)

    assert (result.tier, result.attempts[0].reason) == (TierName.LEXICAL, FailureReason.CONTROLS_FAILED)
    assert "degraded" in result.flags
    assert result.usage.calls <= 3


def test_replies_of_batch_files_are_not_read_without_the_controls_that_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_run(tmp_path, monkeypatch) as run:
        monkeypatch.setenv("PLUMBLINE_LLM_CONTROLS", "true")
        assert (run.prepare(*ROWS), run.submit()) == (0, 0)

        monkeypatch.setenv("PLUMBLINE_LLM_CONTROLS", "false")
        assert run.collect() == 2
        monkeypatch.setenv("PLUMBLINE_LLM_CONTROLS", "true")
        assert run.collect() == 0
        found = [line["result"] for line in run.results()]

    assert "settings changed since the batch files were prepared: llm_controls; " in capsys.readouterr().err
    assert [each["trace"]["judge"]["controls"] for each in found if each["tier"] == "llm"] == [2, 2, 2]
    assert [each.get("flags", []) for each in found if each["tier"] == "llm"] == [[], [], []]


class _Reader(ScriptedChat):
    """Judges by the words that it is given: sentences by the contexts, the metrics and a criterion by the answer."""

    def __init__(self) -> None:
        super().__init__("")
        self.shown: list[Mapping[str, Any]] = []

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        self.shown.append(data)
        asked = {
            each["id"]: each["text"] for each in (*data.get("answer", ()), *data.get("statements", ())) if "id" in each
        }
        contexts = {each["id"]: each["text"] for each in data.get("contexts", ())}
        words = {number: set(content_words(text)) for number, text in contexts.items()}
        wanted = set(content_words(data["question"]))

        def verdict(text: str) -> dict[str, Any]:
            copied = next((each for each in contexts.values() if text in each), None)
            return {"quotes": [text] if copied else [], "verdict": "supported" if copied else "not_mentioned"}

        answering = [
            each.get("id") for each in data.get("answer", ()) if wanted.intersection(content_words(each["text"]))
        ]
        whole = " ".join(each["text"] for each in data.get("answer", ()))
        reply = {
            "sentences": [{"id": number, **verdict(text)} for number, text in asked.items()],
            "question_parts": [
                {
                    "part": data["question"],
                    "answered_by": [each for each in answering if each in asked][:1],
                    "answered": "fully" if answering else "no",
                }
            ],
            "passages": [
                {
                    "context": number,
                    "quote": text[:60],
                    "relevance": "relevant" if wanted & words[number] else "irrelevant",
                }
                for number, text in contexts.items()
            ],
            "criterion_number": [{"label_number": "yes" if re.search(r"\d", whole) else "no"}],
        }
        return ChatReply(json.dumps(reply), "m")


async def test_metrics_of_the_same_call_are_the_same_with_and_without_controls() -> None:
    metrics = (
        *find_metrics(["answer_relevance", "context_relevance", "context_precision@2"]),
        criterion("number", "Does the answer name a number?", {"yes": 1.0, "no": 0.0}, None),
    )
    rows = [json.loads(line) for line in (DATA / "everyday.jsonl").read_text(encoding="utf-8").splitlines()]
    compared = 0
    for row in [each for each in rows if each.get("question")][:140]:
        contexts = tuple(each if isinstance(each, str) else each["text"] for each in row["contexts"])
        chats = {has: _Reader() for has in (True, False)}
        results = {
            has: await Scorer(
                JudgeCascade([LlmTier({"default": chat}, PROMPTS, InlineExecutor(), has_controls=has)]),
                InlineExecutor(),
            ).score(Sample(row["question"], contexts, row["answer"]), JudgeOptions(metrics=metrics))
            for has, chat in chats.items()
        }
        if not chats[True].shown:
            continue
        compared += 1
        with_controls, without = (chats[has].shown[0] for has in (True, False))
        assert results[True].metrics == results[False].metrics
        assert [each.verdict for each in results[True].claims] == [each.verdict for each in results[False].claims]
        assert [each["text"] for each in with_controls["answer"]] == [each["text"] for each in without["answer"]]
        real, *controls = with_controls["statements"]
        assert real in with_controls["answer"]
        assert len(controls) == 2
    assert compared >= 100
