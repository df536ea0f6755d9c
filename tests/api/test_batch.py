"""POST /v1/evaluations/batch: what comes back, in which form and order, and what the summary says."""

from typing import Any

import pytest

from plumbline.main import create_app
from plumbline.service.api.responses import JSON, NDJSON, choose_format
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion
from tests.making.cases import load_cases
from tests.running.batch_service import (
    BATCH_URL,
    CONTEXT,
    SLOW,
    GatedEncoder,
    Reader,
    post,
    read_array,
    read_lines,
    row,
)
from tests.running.service import URL, claim, judge_settings, plain_settings, running, verdicts

LEXICAL = {"tiers": ["lexical"]}
SUPPORTED = verdicts([claim(CONTEXT, "supported", CONTEXT)])


# --- results


async def test_each_row_gets_the_result_of_a_single_evaluation() -> None:
    texts = {"question": "When?", "contexts": [CONTEXT], "answer": f"😀 {CONTEXT} It is red.", "reference": "1931"}
    options = {**LEXICAL, "threshold": 0.9, "offset_unit": "utf16"}
    async with running(plain_settings()) as client:
        single = (await client.post(URL, json={"id": "a", **texts, **options})).json()

        sent = {"samples": [{"custom_id": "a", **texts}], "options": options, "format": "ndjson"}
        batch = await client.post(BATCH_URL, json=sent)

    (only,), _ = read_lines(batch)
    assert (only["custom_id"], only["index"]) == ("a", 0)
    for result in (single, only["result"]):
        for attempt in result["trace"]["attempts"]:
            del attempt["seconds"]
    assert only["result"] == single


async def test_the_summary_counts_what_became_of_the_rows() -> None:
    response = await post(
        row("judged"),
        row("abstained", "I don't know."),
        row("empty", "..."),
        row("no contexts", contexts=[]),
        row("bad", answer=1),
    )

    rows, summary = read_lines(response)
    assert len(rows) == 5
    assert summary.pop("seconds") >= 0
    # No judge is configured, so that the embedding tier answered one row after the judge had not.
    assert summary == load_cases("batch", "summary")


async def test_the_usage_of_all_rows_is_summed(judge: ScriptedJudge) -> None:
    # 100 tokens at 1 and 20 at 3 for a million of them: 0.00016 each
    judge.reply_with(completion(SUPPORTED, usage=(100, 20)))
    settings = judge_settings(judge, llm_prices={"judge-1": {"input": 1.0, "output": 3.0}})
    samples = [row(str(number), question=f"Number {number}?") for number in range(3)]
    async with running(settings) as client:
        response = await client.post(
            BATCH_URL, json={"samples": samples, "options": {"tiers": ["llm"]}, "format": "ndjson"}
        )

    _, summary = read_lines(response)
    usage = summary["usage"]
    assert (summary["tiers"]["llm"], summary["degraded"]) == (3, 0)
    assert (usage["calls"], usage["prompt_tokens"], usage["completion_tokens"]) == (3, 300, 60)
    assert usage["cost"] == pytest.approx(0.00048)


async def test_a_character_that_ends_a_line_in_unicode_does_not_end_a_row() -> None:
    answer = "The bridge\u2028was\u2029opened\x85in 1931."

    rows, _ = read_lines(await post(row("a", answer), row("b"), options=LEXICAL))

    by_id = {each["custom_id"]: each["result"] for each in rows}
    assert set(by_id) == {"a", "b"}
    texts = " ".join(claim["text"] for claim in by_id["a"]["claims"])
    assert texts.split() == answer.split()


# --- order


async def test_rows_come_as_soon_as_they_are_judged() -> None:
    encoder = GatedEncoder()
    app = create_app(plain_settings(), encoder=encoder)
    samples = [row("slow", f"{SLOW} {CONTEXT}"), row("quick"), row("quick too")]
    async with app.router.lifespan_context(app):
        reader = Reader(app, *samples, options={"tiers": ["embedding"]})
        async with reader.reading():
            await reader.take(2)
            before = {each["custom_id"] for each in reader.rows}
            encoder.gate.set()
            await reader.take(2)

    assert before == {"quick", "quick too"}
    assert reader.rows[2]["custom_id"] == "slow"
    assert reader.rows[3]["summary"]["rows"] == 3


async def test_an_array_is_in_the_order_of_the_samples() -> None:
    # long answers and short ones, over fewer slots than rows
    samples = [row(str(number), "\n".join([CONTEXT] * (50 if number % 3 == 0 else 1))) for number in range(12)]

    results, summary = read_array(await post(*samples, format="array", settings={"batch_concurrency": 3}))

    assert [each["index"] for each in results] == list(range(12))
    assert [each["custom_id"] for each in results] == [str(number) for number in range(12)]
    assert summary["rows"] == summary["judged"] == 12


# --- the form of the answer


@pytest.mark.parametrize(
    ("accept", "form", "media_type"),
    [
        (None, None, JSON),
        ("", None, JSON),
        ("*/*", None, JSON),
        ("application/*", None, JSON),
        ("application/x-ndjson", None, NDJSON),
        ("application/json", None, JSON),
        ("APPLICATION/JSON; charset=utf-8", None, JSON),
        ("application/json, text/plain, */*", None, JSON),
        ("text/html", None, JSON),
        ("application/x-ndjson, application/json", None, NDJSON),
        ("text/html, */*;q=0.1", None, JSON),
        ("*/*", "array", JSON),
        ("application/json, */*", "ndjson", NDJSON),
    ],
)
def test_the_caller_chooses_the_form(accept: str | None, form: Any, media_type: str) -> None:
    media_types = {"array": JSON, "ndjson": NDJSON}

    assert media_types[choose_format([] if accept is None else [accept], media_types, form)] == media_type


@pytest.mark.parametrize(("form", "read"), [("array", read_array), ("ndjson", read_lines)])
async def test_both_forms_are_sent(form: str, read: Any) -> None:
    rows, summary = read(await post(row("a"), options=LEXICAL, format=form, accept="*/*"))

    assert len(rows) == summary["rows"] == 1
