"""`plumbline score` with a judge: what it estimates, what it may spend, and a service that does the scoring."""

import gzip
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from plumbline.client import AsyncPlumbline, Retries
from plumbline.ground.version import VERSION
from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_decisions import copies, decide
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.doubles.scripted_service import NDJSON, Answer, Asked, batch_answer, scripted
from tests.making.score_files import comparable, read_rows, sample_row, score, write_rows
from tests.running.service import claim, data_of, plain_settings, served, verdicts

# What a token is on average to the tokenizers of today's judges, for English prose
_CHARACTERS_PER_TOKEN = 4.2
_TOKENS_OUT = 60


def answer(request: RecordedRequest) -> Reply:
    """Each sentence supported that the first context has, no other; tokens as a provider would count them."""
    data = data_of(request)
    quote = data["contexts"][0]["text"]
    asked = [each["text"] for each in data["answer"] if "id" in each]
    reply = verdicts(
        *([claim("", "supported", quote) if text in quote else claim("", "not_mentioned")] for text in asked)
    )
    return completion(reply, usage=(round(len(request.prompt) / _CHARACTERS_PER_TOKEN), _TOKENS_OUT))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    with running_judge() as judge:
        judge.reply_with(answer)
        for name, value in {
            "LLM_PROVIDER": "generic",
            "LLM_BASE_URL": judge.base_url,
            "LLM_MODEL": "judge-1",
            "LLM_API_KEY": "sk-judge-key-0001",
            "LLM_PRICES": json.dumps({"judge-1": {"input": 1.0, "output": 2.0}}),
        }.items():
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        yield judge


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [sample_row(number) for number in range(20)]
    return write_rows(tmp_path / "data.jsonl", [*rows, {"contexts": [], "answer": "It is so."}, "no row"])


def test_the_estimate_has_every_request_and_errs_upwards_in_tokens(
    tmp_path: Path, data: Path, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(data, "--estimate", "--tiers", "llm") == 0
    head, llm, *_ = capsys.readouterr().out.splitlines()
    assert judge.calls == 0
    assert head == "22 rows: 20 for tier llm, 1 without it, 1 bad"
    requests, tokens_in, tokens_out = (int(word) for word in llm.replace(":", " ").split() if word.isdigit())

    # Two of the 22 rows have no contexts, or are none
    assert score(data, "-o", tmp_path / "out.jsonl", "--tiers", "llm", "--quiet") == 1

    assert requests == judge.calls == 20
    # This judge has 4.2 characters a token, as English has; the frame of messages is counted besides.
    assert 1.0 <= tokens_in / judge.tokens_served.prompt < 1.15
    # Answers of two sentences: 30 + 2 * 70 tokens for each, where this judge needs 60
    assert tokens_out == 20 * 170 >= judge.tokens_served.completion
    cost = float(llm.rsplit(" ", 1)[1])
    assert cost == pytest.approx((tokens_in + 2 * tokens_out) / 1e6, rel=1e-4)


def test_two_votes_of_two_judges_are_estimated_as_they_are_asked(
    tmp_path: Path, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_rows(tmp_path / "data.jsonl", [sample_row(number) for number in range(4)])

    assert score(data, "--estimate", "--samples", "3") == 0

    assert "12 requests" in capsys.readouterr().out


# With metrics, each context is one more question: they have no room beside the sentences.
@pytest.mark.parametrize(("share", "contexts", "calls"), [(None, 1, 20), (0.4, 2, 20), (0.4, 14, 40)])
def test_a_decision_model_is_estimated_with_its_expected_share_of_chat_calls(
    tmp_path: Path,
    judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    share: float | None,
    contexts: int,
    calls: int,
) -> None:
    rows = [sample_row(number) for number in range(20)]
    for row in rows if contexts > 1 else ():
        row |= {"question": "When did it open?", "contexts": [*row["contexts"], *["It is old."] * (contexts - 1)]}
    data = write_rows(tmp_path / "data.jsonl", rows)
    options = ("--tiers", "llm", *(("--metrics", "answer_relevance,context_relevance") if contexts > 1 else ()))
    entry = {"provider": "generic", "base_url": judge.base_url, "model": "chat-1", "api_key": "none"}
    for name, value in {
        "LLM_API": "systemone",
        "LLM_JUDGES": json.dumps({"chat": [entry]}),
        "LLM_ESCALATION": "chat",
        "LLM_PRICES": json.dumps({"judge-1": {"input": 0.1, "output": 0}, "chat-1": {"input": 1.0, "output": 2.0}}),
        "LLM_BOUNDS": json.dumps({"judge-1": {"fails": 0.1, "passes": 0.9, "share": share}}),
    }.items():
        monkeypatch.setenv(f"PLUMBLINE_{name}", value)
    judge.reply_with(decide(copies))

    assert score(data, "--estimate", *options) == 0
    _, llm, second, *_ = capsys.readouterr().out.splitlines()
    assert judge.calls == 0
    assert score(data, "-o", tmp_path / "out.jsonl", *options, "--quiet") == 0

    requests, tokens_in, tokens_out = (int(word) for word in llm.replace(":", " ").split() if word.isdigit())
    assert (requests, tokens_out) == (judge.calls, 0) == (calls, 0)
    assert 0.8 <= tokens_in / judge.tokens_served.prompt < 1.25
    assert second.startswith(f"escalation (chat-1): {round(20 * (share or 0.15))} requests for {share or 0.15:.0%} ")
    assert ("assumed" in second) == (share is None)


def test_having_spent_what_it_may_a_run_stops_and_goes_on_for_more(
    tmp_path: Path, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_rows(tmp_path / "data.jsonl", [sample_row(number) for number in range(20)])
    out, options = tmp_path / "out.jsonl", ("--tiers", "llm", "--quiet", "--concurrency", "2")

    assert score(data, "-o", out, *options, "--max-cost", "0.004") == 3
    assert "raise --max-cost to resume" in capsys.readouterr().err
    first = judge.calls
    assert 1 <= first < 20
    assert score(data, "-o", out, *options, "--max-cost", "0.004") == 3
    assert judge.calls == first
    assert score(data, "-o", out, *options, "--max-cost", "9", "--fail-under", "faithfulness=0.5") == 0

    assert judge.calls == 20
    costs = [row["result"]["trace"]["usage"]["cost"] for row in read_rows(out)]
    assert 0.004 <= sum(costs[:first]) < 0.004 + 2 * max(costs)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_rows_that_a_judge_left_without_a_verdict_fail_the_run_and_are_scored_again(
    tmp_path: Path,
    judge: ScriptedJudge,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    rows = [sample_row(number) for number in range(30)]
    data, out = write_rows(tmp_path / "data.jsonl", rows), tmp_path / f"out.{form}"
    lines = out if form == "jsonl" else tmp_path / "out.csv.lines.gz"
    options = ("--tiers", "llm", "--concurrency", "1", "--fail-under", "passed_share=0")

    def read() -> list[str]:
        packed = gzip.decompress(lines.read_bytes()) if form == "csv" else lines.read_bytes()
        found = [json.loads(line) for line in packed.splitlines()]
        assert [row["row"] for row in found] == list(range(30))
        return [row["result"]["status"] for row in found]

    judge.reply_with(*[answer] * 6, completion("I had rather not say."))
    assert score(data, "-o", out, *options) == 1
    said = capsys.readouterr().err
    assert "gate judged: FAILED: wanted at least 0.95, got 0.2000 (6 of 30 rows: 24 not judged)" in said
    assert "24 rows have no verdict for now: run the same command again to score these again" in said
    assert said.splitlines()[-1].startswith("worst: q0: did not pass")
    first = read()
    assert first == ["judged"] * 6 + ["not_judged"] * 24

    judge.reply_with(answer)
    before = judge.calls
    assert score(data, "-o", out, *options) == 0
    assert f"{out.name}: 24 rows without a verdict are scored again" in capsys.readouterr().err
    assert read() == ["judged"] * 30
    assert judge.calls - before == 24
    assert score(data, "-o", out, *options) == 0
    assert f"{out.name} is complete; nothing is left to do" in capsys.readouterr().err
    assert judge.calls - before == 24


def test_a_bound_on_cost_needs_prices(
    tmp_path: Path,
    data: Path,
    judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("PLUMBLINE_LLM_PRICES")

    assert score(data, "-o", data.parent / "out.jsonl", "--quiet", "--max-cost", "1") == 2
    assert "has no price of 'judge-1'" in capsys.readouterr().err
    assert judge.calls == 0


def test_a_service_scores_as_this_process_does(tmp_path: Path) -> None:
    rows: list[dict[str, object] | str] = [sample_row(number) for number in range(70)]
    rows[0] = "no row"
    rows[40] = rows[3]
    rows[69] = '{"cut'
    data = write_rows(tmp_path / "data.jsonl", rows)
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    assert score(data, "-o", here, "--tiers", "lexical", "--quiet") == 0

    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        assert score(data, "-o", there, "--tiers", "lexical", "--quiet", "--url", url, "--concurrency", "8") == 0

    assert comparable(there) == comparable(here)


def test_the_service_of_the_environment_scores_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = write_rows(tmp_path / "data.jsonl", [sample_row(0)]), tmp_path / "out.jsonl"
    options = ("-o", out, "--tiers", "lexical")

    with scripted(batch_answer) as service:
        monkeypatch.setenv("PLUMBLINE_URL", service.url)
        assert score(data, *options) == 0
        assert score(data, *options, "--restart", "--url", "") == 0

    said = capsys.readouterr().err
    assert len(service.asked) == 1
    assert (
        said.count(f"plumbline: scored by the service at {service.url} (PLUMBLINE_URL); --url '' scores in this") == 1
    )


def test_a_service_of_an_older_shape_ends_the_command_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_rows(tmp_path / "data.jsonl", [sample_row(0)]), tmp_path / "out.jsonl"
    old = json.loads(Path("tests/data/old_results.jsonl").read_text(encoding="utf-8").splitlines()[1])

    def answer(asked: Asked) -> Answer:
        row = {**old, "custom_id": asked.json["samples"][0]["custom_id"], "index": 0}
        return Answer([json.dumps(row).encode() + b"\n"], media_type=NDJSON)

    with scripted(answer) as service:
        code = score(data, "-o", out, "--tiers", "lexical", "--quiet", "--url", service.url)

    *_, line = capsys.readouterr().err.splitlines()
    assert code == 2
    assert f"the service is Plumbline 0.2 or older, and this client {VERSION} cannot read its results" in line


@pytest.mark.parametrize(
    ("header", "options"),
    [("context,answer", ()), ("retrieved_contexts,response", ("--columns", "ragas"))],
)
def test_a_table_without_the_optional_columns_is_scored_by_a_service(
    tmp_path: Path, header: str, options: tuple[str, ...]
) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "out.jsonl"
    data.write_text(f"{header}\nThe kettle holds 1.7 litres.,The kettle holds 1.7 litres.\n", encoding="utf-8")

    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        assert score(data, "-o", out, "--tiers", "lexical", "--quiet", "--url", url, *options) == 0

    assert [row["result"]["status"] for row in read_rows(out)] == ["judged"]


def test_rows_of_a_service_that_cannot_reach_the_threshold_are_counted_after_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_rows(tmp_path / "data.jsonl", [sample_row(number) for number in range(3)]), tmp_path / "out.jsonl"
    options = ("-o", out, "--tiers", "lexical", "--threshold", "1")

    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        assert score(data, *options, "--url", url) == 0

    said = capsys.readouterr().err.splitlines()
    assert said[-3] == "plumbline: 3 rows cannot pass: the threshold is above the highest score of their tier"
    assert said[-2].startswith("3 rows: 3 did not pass; ")


def test_a_service_that_is_away_leaves_rows_and_makes_no_errors_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = "plumbline.cli.score.remote.AsyncPlumbline"
    monkeypatch.setattr(patient, partial(AsyncPlumbline, retries=Retries(attempts=2, backoff_seconds=0.001)))
    data, out = write_rows(tmp_path / "data.jsonl", [sample_row(0)]), tmp_path / "out.jsonl"
    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        pass

    assert score(data, "-o", out, "--quiet", "--url", url) == 3

    assert "run the same command again" in capsys.readouterr().err
    assert not out.exists()
    # A mistyped address is corrected without --restart: no row depends on it
    with served(create_app(plain_settings(), encoder=WordEncoder())) as right:
        assert score(data, "-o", out, "--quiet", "--tiers", "lexical", "--url", right) == 0


def test_ragas_stands_for_its_five_columns(tmp_path: Path, judge: ScriptedJudge) -> None:
    row = {
        "question": "When?",
        "contexts": ["It opened in 1931."],
        "answer": "It opened in 1931.",
        "reference": "1931.",
    }
    data, results = write_rows(tmp_path / "rows.jsonl", [row]), tmp_path / "results.jsonl"

    assert score(data, "-o", str(results), "--metrics", "ragas") == 0

    (only,) = read_rows(results)
    assert list(only["result"]["metrics"]) == [
        "faithfulness", "answer_relevance", "context_precision", "context_recall", "correctness",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_metrics_come_with_the_estimated_calls_and_stand_in_the_results(
    tmp_path: Path, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    def with_lists(request: RecordedRequest) -> Reply:
        reply = json.loads(answer(request).body)["choices"][0]["message"]["content"]
        part = {"part": "When did it open", "answered_by": [1], "answered": "partly"}
        return completion(json.dumps({**json.loads(reply), "question_parts": [part]}))

    judge.reply_with(with_lists)
    row = {"question": "When did it open?", "contexts": ["It opened in 1931."], "answer": "It opened in 1931."}
    data, results = write_rows(tmp_path / "rows.jsonl", [row] * 3), tmp_path / f"results.{form}"
    options = ("--tiers", "llm", "--no-cache", "--metrics", "answer_relevance")

    assert score(data, "--estimate", *options) == 0
    assert "3 requests" in capsys.readouterr().out
    assert score(data, "-o", str(results), *options) == 0

    assert judge.calls == 3
    if form == "csv":
        header, first, *_ = results.read_text("utf-8").splitlines()
        assert dict(zip(header.split(","), first.split(","), strict=False))["answer_relevance"] == "0.5"
    else:
        (first_row, *_) = read_rows(results)
        assert first_row["result"]["metrics"]["answer_relevance"]["value"] == 0.5
