"""How many calls are under way at one time, how many a minute, and what a sample may cost."""

import asyncio
import threading
from dataclasses import replace

import pytest

from plumbline.ground.errors import TierFailure
from plumbline.ground.judge_settings import ModelPrice
from plumbline.judging.ports.exchange import Ledger
from plumbline.models.chat.completions import Completion, read_completion
from plumbline.models.chat.resilient_endpoint import ApiRequest, RetryPolicy
from tests.doubles.scripted_faults import hang, reset, trickle
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import (
    RecordedRequest,
    Step,
    TokenCount,
    completion,
    completion_payload,
    openai_error,
    status,
)
from tests.doubles.scripted_transport import MODEL, REQUEST, ask, entry, failure_of, transport

GOOD = completion('{"ok": true}')
PRICES = {MODEL: ModelPrice(input=1.0, output=10.0, cached=0.1)}


async def test_a_long_reply_is_read_beside_the_event_loop(judge: ScriptedJudge) -> None:
    readers: list[int] = []

    def read(body: bytes) -> Completion:
        readers.append(threading.get_ident())
        return read_completion(body)

    judge.reply_with(GOOD, completion("<think></think>" * 10_000 + "{}"))
    call = ApiRequest({"model": MODEL, "messages": []}, read, prompt=10)

    async with transport(judge) as chat:
        (endpoint,) = chat._endpoints
        replies = [await endpoint.ask(call, seconds=5, ledger=Ledger()) for _ in range(2)]

    assert [each.content for each in replies] == ['{"ok": true}', "{}"]
    assert [each == threading.get_ident() for each in readers] == [True, False]


# --- at one time


async def test_no_more_calls_are_under_way_than_the_cap(judge: ScriptedJudge) -> None:
    judge.reply_with(completion('{"ok": true}', delay_seconds=0.05))

    async with transport(judge, RetryPolicy(max_concurrency=7)) as chat:
        await asyncio.gather(*(ask(chat) for _ in range(40)))

    assert (judge.calls, judge.max_in_flight) == (40, 7)


async def test_a_provider_that_takes_few_calls_at_a_time_loses_none(judge: ScriptedJudge) -> None:
    def only_four(request: RecordedRequest) -> Step:
        if judge.in_flight > 4:
            return openai_error(429, "limit_requests")
        return completion('{"ok": true}', delay_seconds=0.02)

    judge.reply_with(only_four)
    async with transport(judge, RetryPolicy(max_concurrency=16, backoff_seconds=0.1, attempts=8)) as chat:
        await asyncio.gather(*(ask(chat, seconds=20) for _ in range(100)))
        limit = chat._endpoints[0]._limit.limit

    refused = judge.calls - 100
    assert limit <= 8
    assert refused < 60


async def test_a_call_that_waits_for_its_turn_keeps_its_deadline(judge: ScriptedJudge) -> None:
    judge.reply_with(hang())

    async with transport(judge, RetryPolicy(max_concurrency=1)) as chat:
        failures = await asyncio.gather(*(failure_of(chat, seconds=0.2) for _ in range(5)))

    assert {failure.reason for failure in failures} == {"timeout"}
    # on a busy machine the first deadline passes a little before the others
    assert judge.calls <= 2


# --- a minute


async def test_a_turn_beyond_the_deadline_is_refused_at_once(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)

    async with transport(judge, RetryPolicy(rpm=1)) as chat:
        await ask(chat)
        failure = await failure_of(chat, seconds=30.0)

    assert (failure.reason, judge.calls) == ("rate_limited", 1)
    assert "1 requests a minute" in failure.detail


async def test_a_budget_of_tokens_is_settled_by_what_was_counted(judge: ScriptedJudge) -> None:
    judge.reply_with(completion('{"ok": true}', usage=(1_000, 0)))

    # 6,000 a minute are 100 a second: after one call of 1,000, ten seconds pass
    async with transport(judge, RetryPolicy(tpm=6_000)) as chat:
        await ask(chat)
        assert "6000 tokens a minute" in (await failure_of(chat, seconds=5.0)).detail

    judge.reply_with(completion('{"ok": true}', usage=(5, 5)))
    async with transport(judge, RetryPolicy(tpm=6_000)) as chat:
        for _ in range(5):
            await ask(chat, seconds=1.0)


# --- money


async def test_the_ledger_adds_up_to_what_the_provider_served(judge: ScriptedJudge) -> None:
    judge.reply_with(
        completion("a", usage=(100, 20)),
        status(500),
        completion("b", usage=(50, 10)),
        completion(None, refusal="no", usage=(30, 3)),
        reset(),
        completion("c", usage=None),
        completion("", usage=(7, 0)),
    )
    ledger = Ledger()

    async with transport(judge, llm_prices=PRICES) as chat:
        await ask(chat, ledger=ledger)
        await ask(chat, ledger=ledger)
        await failure_of(chat, ledger=ledger)
        await ask(chat, ledger=ledger)
        await failure_of(chat, ledger=ledger)

    usage = ledger.usage
    assert usage.calls == judge.calls == 8
    assert TokenCount(usage.prompt_tokens, usage.completion_tokens) == judge.tokens_served == TokenCount(194, 33)
    assert usage.unmetered_calls == 3


@pytest.mark.parametrize("step", [hang(), trickle(GOOD, bytes_per_second=1)])
async def test_a_call_cut_off_by_its_deadline_is_in_the_ledger(judge: ScriptedJudge, step: Step) -> None:
    judge.reply_with(step)
    ledger = Ledger()

    async with transport(judge, llm_prices=PRICES) as chat:
        await failure_of(chat, seconds=0.2, ledger=ledger)

    assert (ledger.usage.calls, ledger.usage.unmetered_calls, judge.calls) == (1, 1, 1)
    # nobody knows what the provider bills for it: at most this
    assert ledger.usage.cost == pytest.approx(256 * 10 / 1e6, rel=0.1)


async def test_cached_tokens_have_their_price(judge: ScriptedJudge) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 600}}
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    judge.reply_with(status(200, {**completion_payload([choice]), "usage": usage}))
    ledger = Ledger()

    async with transport(judge, llm_prices=PRICES) as chat:
        await ask(chat, ledger=ledger)

    assert ledger.usage.cached_tokens == 600
    assert ledger.usage.cost == pytest.approx((400 * 1.0 + 600 * 0.1 + 100 * 10.0) / 1e6)


async def test_what_is_refused_costs_nothing(judge: ScriptedJudge) -> None:
    judge.reply_with(status(500))
    ledger = Ledger()

    async with transport(judge, llm_prices=PRICES) as chat:
        await failure_of(chat, ledger=ledger)

    assert (ledger.usage.calls, ledger.usage.cost) == (3, 0.0)


async def test_without_a_price_the_cost_is_not_known(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    ledger = Ledger()

    async with transport(judge) as chat:
        await ask(chat, ledger=ledger)

    assert ledger.usage.cost is None


async def test_a_call_that_would_usually_go_beyond_the_bound_is_not_made(judge: ScriptedJudge) -> None:
    # (10 * 1 + 200 * 10) / 1,000,000 = 0.00201 each; a usual reply of 100 tokens takes 0.001
    judge.reply_with(completion("x", usage=(10, 200)))
    ledger = Ledger(max_cost=0.004)

    async with transport(judge, llm_prices=PRICES) as chat:
        await ask(chat, ledger=ledger)
        await ask(chat, ledger=ledger)
        failure = await failure_of(chat, ledger=ledger)

    assert (failure.reason, judge.calls) == ("over_budget", 2)
    assert ledger.usage.cost == pytest.approx(0.00402)


async def test_a_bound_below_the_worst_case_does_not_take_the_judge_away(judge: ScriptedJudge) -> None:
    judge.reply_with(completion("x", usage=(10, 100), delay_seconds=0.02))
    ledger = Ledger(max_cost=0.0035)
    # at worst 0.041 each
    long = replace(REQUEST, max_output_tokens=4_096)

    async with transport(judge, llm_prices=PRICES) as chat:
        await asyncio.gather(*(ask(chat, ledger=ledger, request=long) for _ in range(3)))

    assert judge.max_in_flight == 1
    assert ledger.usage.cost == pytest.approx(0.00303)


async def test_calls_at_one_time_exceed_the_bound_by_no_more_than_one_of_them(judge: ScriptedJudge) -> None:
    judge.reply_with(completion("x", usage=(30, 256), delay_seconds=0.05))
    ledger = Ledger(max_cost=0.01)

    async with transport(judge, llm_prices=PRICES) as chat:
        results = await asyncio.gather(
            *(chat.complete(REQUEST, seconds=3, ledger=ledger) for _ in range(10)), return_exceptions=True
        )

    failures = [result for result in results if isinstance(result, TierFailure)]
    assert {failure.reason for failure in failures} == {"over_budget"}
    # Three at their worst take 0.00777 and leave room for a usual one of 0.001; four took 0.01036.
    assert judge.calls == 10 - len(failures) == 4
    assert ledger.usage.cost == pytest.approx(0.01036)


async def test_with_a_bound_a_model_without_a_price_is_not_asked(judge: ScriptedJudge) -> None:
    async with transport(judge) as chat:
        failure = await failure_of(chat, ledger=Ledger(max_cost=1.0))

    assert (failure.reason, judge.calls) == ("over_budget", 0)
    assert "price" in failure.detail


async def test_a_cheaper_model_answers_what_the_first_is_too_dear_for(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    prices = {MODEL: ModelPrice(input=1_000, output=1_000), "judge-2": ModelPrice(input=0, output=0)}

    async with transport(judge, llm_prices=prices, llm_fallbacks=(entry(judge, model="judge-2"),)) as chat:
        await ask(chat, ledger=Ledger(max_cost=0.001))

    assert [request.json["model"] for request in judge.requests] == ["judge-2"]
