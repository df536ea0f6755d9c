"""Batch files from end to end: the results are those of the live judge, whatever order and shape replies come in."""

import itertools
import json

import pytest

from tests.doubles.request_ids import counted_from_1
from tests.doubles.scripted_batches import Lines
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion, openai_error
from tests.running.batch_file_runs import DAM, DOUBTED, ROWS, Run, judged, live, timeless
from tests.running.service import JUDGE_KEY, data_of

METRIC_ROW = {
    "custom_id": "five", "question": "How high?", "contexts": [DAM], "answer": DAM,
    "reference": "It is 120 metres high.",
}  # fmt: skip


def test_the_results_are_those_of_the_live_judge_for_the_same_replies(run: Run) -> None:
    lines = run.whole(*ROWS)

    assert [line["row"] for line in lines] == list(range(len(ROWS)))
    assert [line["custom_id"] for line in lines] == [row["custom_id"] for row in ROWS]
    found = [timeless(line["result"]) for line in lines]
    assert [result["tier"] for result in found] == ["llm", "llm", None, None, "llm"]
    assert [result["faithfulness"] for result in found] == [1.0, 0.5, None, 0.0, 0.5]
    assert found == live(*ROWS)


def test_the_questions_are_those_of_the_live_judge_but_for_the_mark_and_ids(run: Run) -> None:
    run.prepare(*ROWS)
    live(*ROWS)

    bodies = [line["body"] for line in run.requests()]
    asked = [request.json for request in run.judge.requests]
    assert len(bodies) == len(asked) == 3
    for body, sent in zip(bodies, asked, strict=True):
        assert {**body, "messages": None} == {**sent, "messages": None}
        assert _unmarked(body["messages"][1]["content"]) == _unmarked(sent["messages"][1]["content"])
    assert {(line["method"], line["url"]) for line in run.requests()} == {("POST", "/v1/chat/completions")}


def test_each_turn_of_a_conversation_is_a_question_of_its_own(run: Run) -> None:
    asked, told = {"role": "user", "content": "How high?"}, {"role": "tool", "content": DAM}
    turns = [
        {"role": "assistant", "content": each} for each in ("The dam was built in 1932.", "It leaks every spring.")
    ]

    (line,) = run.whole({"custom_id": "talk", "messages": [asked, told, turns[0], asked, turns[1]]}, fallback="none")

    assert len(run.requests()) == 2
    assert (line["custom_id"], line["result"]["tier"], line["result"]["faithfulness"]) == ("talk", "llm", 0.5)
    assert [turn["passed"] for turn in line["result"]["conversation"]["turns"]] == [True, False]


def with_metrics(request: RecordedRequest) -> Reply:
    """The judge of the runs, which gives each list that it is asked for as well."""
    lists = {
        "question_parts": [{"part": "How high?", "answered_by": [2], "answered": "fully"}],
        "criterion_formal": [{"label_formal": "yes"}],
        "reference_in_answer": [
            {"reference": 1, "fact": METRIC_ROW["reference"], "stated_by": [2], "in_answer": "stated"}
        ],
        "reference_in_contexts": [
            {"reference": 1, "fact": METRIC_ROW["reference"], "quote": "120 metres", "in_contexts": "found"}
        ],
        "claims_by_reference": [
            {"claim_id": each["id"], "quote": "120 metres", "by_reference": "stated"}
            if each["id"] == "1.0"
            else {"claim_id": each["id"], "quote": "", "by_reference": "not_mentioned"}
            for each in data_of(request).get("claims", [])
        ],
    }
    asked = {name: items for name, items in lists.items() if f'"{name}"' in request.prompt}
    if "You give verdicts on an answer" in request.prompt:
        return completion(json.dumps(asked))
    content = json.loads(json.loads(judged(request).body)["choices"][0]["message"]["content"])
    return completion(json.dumps({**content, **asked}, ensure_ascii=False))


def test_metrics_and_criteria_are_prepared_and_those_with_a_reference_follow_in_the_next_round(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    criteria = [{"name": "formal", "question": "Is it formal?", "labels": {"yes": 1.0, "no": 0.0}}]
    (run.folder / "criteria.toml").write_text(
        '[[criteria]]\nname = "formal"\nquestion = "Is it formal?"\nlabels = { yes = 1.0, no = 0.0 }\n'
    )
    run.batches.answer = with_metrics
    run.judge.reply_with(with_metrics)
    asked = ["answer_relevance", "context_recall", "correctness"]

    run.prepare(METRIC_ROW, options=["--metrics", ",".join(asked), "--criteria", str(run.folder / "criteria.toml")])
    run.submit()
    run.collect()
    first = run.results()[0]["result"]["metrics"]
    run.submit()
    run.collect()

    assert {name: (each["status"], each.get("reason")) for name, each in first.items()} == {
        "answer_relevance": ("judged", None),
        "criterion_formal": ("judged", None),
        "context_recall": ("not_judged", "not_asked"),
        "correctness": ("not_judged", "not_asked"),
    }
    assert "all questions have their replies" in capsys.readouterr().out
    (line,) = run.results()
    # one of two claims is of the reference, and all of the reference is in the answer: 2 * .5 / 1.5
    values = {name: round(each["value"], 3) for name, each in line["result"]["metrics"].items()}
    assert values == {"answer_relevance": 1, "context_recall": 1, "correctness": 0.667, "criterion_formal": 1}
    assert [timeless(line["result"])] == live(METRIC_ROW, metrics=asked, criteria=criteria)


def test_a_second_look_goes_into_the_next_round_and_then_all_is_as_live(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (*ROWS, DOUBTED)
    first = run.whole(*rows)[-1]["result"]
    assert set(first["flags"]) >= {"not_asked", "incomplete"}
    assert first["claims"][0]["verdict"] == "not_mentioned"

    assert run.collect() == 0
    assert "requests.round-2.jsonl, 1 questions that are still open" in capsys.readouterr().out
    assert run.submit() == 0
    assert run.collect() == 0
    assert "all questions have their replies: these results are final" in capsys.readouterr().out

    last = run.results()
    assert last[-1]["result"]["claims"][0]["flags"] == ["second_look"]
    assert [timeless(line["result"]) for line in last] == live(*rows)


def test_further_windows_are_asked_in_the_next_round(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_CONTEXT_TOKENS", "4000")
    monkeypatch.setenv("PLUMBLINE_LLM_MAX_OUTPUT_TOKENS", "400")
    row = {"custom_id": "long", "contexts": ["A lake lies here. " * 1500, DAM], "answer": DAM}
    first = run.whole(row, fallback="none")[0]["result"]
    assert (first["status"], first["trace"]["attempts"][0]["reason"]) == ("not_judged", "not_asked")

    run.collect()
    run.submit()
    run.collect(fallback="none")

    result = run.results()[0]["result"]
    assert result["trace"]["windows"] > 1
    assert [timeless(result)] == live(row)


def test_an_answer_of_several_replies_asks_all_of_them_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_MAX_OUTPUT_TOKENS", "320")
    sentences = " ".join(f"House number {number} is {number} metres high." for number in range(20))
    row = {"custom_id": "many", "contexts": [sentences], "answer": sentences}

    result = timeless(run.whole(row)[0]["result"])

    assert len(run.requests()) == 10
    assert [result] == live(row)


def test_the_order_of_replies_does_not_matter_and_a_repeated_line_counts_once(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.batches.shape = lambda lines: [*lines[::-1], lines[0]]
    run.batches.tail = b'{"custom_id": "0-'

    lines = run.whole(*ROWS)

    assert [timeless(line["result"]) for line in lines] == live(*ROWS)
    assert "passed over as unreadable, repeated or of no question: 2" in capsys.readouterr().err


def test_a_torn_reply_falls_to_the_next_tier_and_says_why(run: Run) -> None:
    def tear(lines: Lines) -> Lines:
        return lines[1:]

    run.batches.shape = tear
    run.batches.tail = b'{"id": "r", "custom_id": "0'

    first, second = (line["result"] for line in run.whole(*ROWS[:2]))

    assert (first["tier"], first["flags"]) == ("lexical", ["degraded"])
    attempt = first["trace"]["attempts"][0]
    assert (attempt["tier"], attempt["reason"]) == ("llm", "upstream_error")
    assert attempt["detail"] == "the batch ended without a reply to this request"
    assert second["tier"] == "llm"


def test_an_expired_batch_keeps_what_it_did_and_the_rest_is_asked_again(run: Run) -> None:
    run.batches.ends_as, run.batches.skips = "expired", frozenset({1})
    results = [line["result"] for line in run.whole(*ROWS[:2], fallback="none")]
    assert [result["status"] for result in results] == ["judged", "not_judged"]
    assert results[1]["trace"]["attempts"][0]["reason"] == "timeout"
    assert results[1]["faithfulness"] is None

    run.batches.ends_as, run.batches.skips = "completed", frozenset()
    run.collect(fallback="none")
    run.submit()
    run.collect(fallback="none")

    assert len(run.requests()) == 3
    assert [timeless(line["result"]) for line in run.results()] == live(*ROWS[:2])


def test_a_batch_that_fails_its_validation_costs_no_run(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.batches.ends_as = "failed"
    run.batches.errors = [{"code": "model_not_found", "message": f"no model; {JUDGE_KEY}", "line": 1}]

    lines = run.whole(*ROWS)

    assert [line["result"]["tier"] for line in lines] == ["lexical", "lexical", None, None, "lexical"]
    assert lines[0]["result"]["trace"]["attempts"][0]["reason"] == "rejected"
    said = capsys.readouterr().err
    assert "batch-1 failed, 0 of 3 done; model_not_found in line 1" in said
    assert JUDGE_KEY not in said


def test_a_batch_that_failed_its_validation_is_not_written_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.batches.ends_as = "failed"
    run.prepare(*ROWS)
    run.submit()

    assert run.collect() == 0

    said = capsys.readouterr().out
    assert "3 questions were not run: mend what their batches failed for" in said
    assert "these results are final" not in said
    assert [path.name for path in run.folder.glob("*round-2*")] == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (openai_error(400, "data_inspection_failed"), "content_filtered"),
        (openai_error(400, "invalid_parameter"), "rejected"),
        (openai_error(429, "limit_requests"), "rate_limited"),
        (openai_error(500, None), "upstream_error"),
        (completion(""), "empty_reply"),
        (completion("Everything is fine."), "not_asked"),
        (completion('{"mark": "0123abcd", "sentences": []}'), "foreign_reply"),
        (completion('{"sentences": [{"id": 1, "cl', finish_reason="length"), "not_asked"),
        (completion(None, refusal="I will not."), "refused"),
        (Reply(200, b'{"choices": NaN}'.replace(b"NaN", b"7")), "invalid_reply"),
    ],
)
def test_a_reply_of_no_use_is_one_row_degraded(run: Run, reply: Reply, reason: str) -> None:
    def answer(request: RecordedRequest) -> Reply:
        return reply if "leaks" in request.prompt else judged(request)

    run.batches.answer = answer

    first, second = (line["result"] for line in run.whole(*ROWS[:2]))

    assert first["tier"] == "llm"
    assert (second["tier"], second["trace"]["attempts"][0]["reason"]) == ("lexical", reason)
    assert second["status"] == "judged"


def test_usage_and_cost_come_from_the_replies_at_the_price_of_a_batch(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_PRICES", json.dumps({"judge-1": {"input": 1000, "output": 10_000}}))

    usage = run.whole(ROWS[0])[0]["result"]["trace"]["usage"]

    assert (usage["calls"], usage["prompt_tokens"], usage["completion_tokens"]) == (1, 200, 10)
    assert usage["cost"] == pytest.approx((200 * 1000 + 10 * 10_000) / 1_000_000 * 0.5)
    said = capsys.readouterr().out
    assert "tokens 200 in, 10 out; cost 0.1500" in said


def _unmarked(text: str) -> str:
    """The text without its mark and the ids that follow from it."""
    mark, data = next(pair for pair in itertools.pairwise(text.split("\n")) if pair[0].startswith("BEGIN "))
    counted = json.dumps(counted_from_1(json.loads(data), text), ensure_ascii=False)
    return text.replace(data, counted).replace(mark.removeprefix("BEGIN "), "MARK")
