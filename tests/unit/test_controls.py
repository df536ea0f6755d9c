"""Controls: sentences with a known verdict that are judged among the answer's, and what becomes of one got wrong."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.context_windows import Piece
from plumbline.judging.judge.controls import Control, draw_controls, is_right
from plumbline.judging.judge.questions import keyed_mark, load_prompts
from plumbline.judging.judge.replies import ClaimReply
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat, case_of
from tests.running.batch_file_runs import ROWS, a_run

PROMPTS = load_prompts()
CONTEXT = "The Marlow Bridge is 412 metres long. Ferries cross the river at Teal Landing."
ANSWER = "The Marlow Bridge is 412 metres long."


def _drawn(*contexts: str, seed: str = "1") -> tuple[Control, ...]:
    case = case_of("It is long.", *contexts)
    return draw_controls(case, tuple(Piece(number, text) for number, text in enumerate(contexts, start=1)), seed)


def test_one_control_is_copied_and_one_has_a_number_that_no_context_has() -> None:
    false, true = sorted(_drawn(CONTEXT), key=lambda control: control.is_true)

    assert true == Control("Ferries cross the river at Teal Landing.", is_true=True)
    assert re.fullmatch(r"The Marlow Bridge is \d+ metres long\.", false.text)
    assert "412" not in false.text


@pytest.mark.parametrize(
    ("context", "false"),
    [
        ("The ferry station is closed on Mondays.", "The ferry station is not closed on Mondays."),
        ("青川图书馆是省内最大的图书馆。", "青川图书馆不是省内最大的图书馆。"),
        ("The ferry crosses the river twice.", "In 1700, the ferry crosses the river twice."),
        ("青川图书馆收藏古籍和地方志。", "1700年，青川图书馆收藏古籍和地方志。"),
    ],
)
def test_without_a_number_a_plain_statement_is_negated_or_dated(context: str, false: str) -> None:
    (control,) = _drawn(context)

    assert not control.is_true
    # Any early year will do.
    assert re.sub(r"1[67]\d\d", "1700", control.text) == false


@pytest.mark.parametrize(
    "context",
    [
        "Sorry, we do not accept comments on this article.",
        "Client: the price of 450 dollars sounds reasonable.",
        "What does the ticket to the museum cost?",
        "- tickets\n- maps",
    ],
)
def test_what_is_no_plain_statement_makes_no_control(context: str) -> None:
    assert _drawn(context) == ()


def test_the_same_seed_draws_the_same_controls() -> None:
    contexts = [f"The {name} Bridge is {100 + 10 * len(name)} metres long." for name in ("Marlow", "Teal", "Harbour")]

    assert _drawn(*contexts, seed="a") == _drawn(*contexts, seed="a")
    assert len({_drawn(*contexts, seed=str(seed)) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    ("is_true", "verdicts", "expected"),
    [
        (False, ["contradicted"], True),
        (False, ["not_mentioned"], True),
        (False, ["supported", "contradicted"], True),
        (False, ["supported"], False),
        (False, ["not_a_claim"], False),
        (True, ["supported"], True),
        (True, ["not_a_claim"], True),
        (True, ["contradicted"], False),
        (True, ["not_mentioned"], False),
    ],
)
def test_a_judge_is_right_that_accuses_the_false_and_does_not_deny_the_true(
    is_true: bool, verdicts: list[str], expected: bool
) -> None:
    replies = [ClaimReply.model_validate({"verdict": verdict}) for verdict in verdicts]

    assert is_right(Control("", is_true=is_true), replies) is expected


class _Chat(ScriptedChat):
    """Gives each text the verdict that is named for it, `supported` for any other."""

    def __init__(self, verdicts: Mapping[str, str]) -> None:
        super().__init__("")
        self._verdicts = verdicts

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        items = []
        for each in data["answer"]:
            kind = "own" if each["text"] == ANSWER else "copy" if each["text"] in CONTEXT else "false"
            verdict = self._verdicts.get(kind, "supported")
            if verdict != "missing":
                items.append({"id": each["id"], "claims": [{"quotes": [CONTEXT[:37]], "verdict": verdict}]})
        return ChatReply(json.dumps({"sentences": items}), "m")


async def _result(**verdicts: str) -> SampleResult:
    tier = LlmTier({"default": _Chat(verdicts)}, PROMPTS, InlineExecutor(), mark=keyed_mark(b"test"), has_controls=True)
    return await Scorer(JudgeCascade([tier]), InlineExecutor()).score(Sample("", (CONTEXT,), ANSWER), JudgeOptions())


async def test_a_judge_that_gets_both_right_is_believed() -> None:
    result = await _result(false="contradicted")

    assert (result.passed, result.flags, [claim.flags for claim in result.claims]) == (True, (), [()])
    assert result.judge is not None
    assert (result.judge.controls, result.judge.controls_right) == (2, 2)
    assert result.usage.calls == 1


@pytest.mark.parametrize(
    "verdicts",
    [
        {"false": "supported"},
        {"false": "not_a_claim"},
        {"false": "contradicted", "copy": "not_mentioned"},
        {"false": "missing"},
    ],
)
async def test_an_answer_whose_judge_gets_one_wrong_is_flagged_and_does_not_pass(verdicts: dict[str, str]) -> None:
    result = await _result(**verdicts)

    assert result.scores is not None
    assert (result.scores.faithfulness, result.passed) == (1.0, False)
    assert result.flags == ("control_failed",)
    assert [claim.flags for claim in result.claims] == [("support_doubtful",)]
    assert result.judge is not None
    assert (result.judge.controls, result.judge.controls_right) == (2, 1)


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
    assert [each["trace"]["judge"]["controls"] for each in found if each["tier"] == "llm"] == [1, 1, 1]
    assert [each.get("flags", []) for each in found if each["tier"] == "llm"] == [[], [], []]
