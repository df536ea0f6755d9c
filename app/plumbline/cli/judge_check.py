"""`plumbline doctor judge`: judge a small sample of ours with each configured address, and show what came back."""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Final, NamedTuple

from plumbline.assembly import build, make_plan
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.phrases import load_data
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.texts import CodedText
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.verdicts import Claim
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.models.chat.api_client import Exchange
from plumbline.models.chat.call_limits import Tariff
from plumbline.models.chat.chat_models import FailoverChatModel
from plumbline.models.chat.endpoint_guard import ModelHealth
from plumbline.models.chat.endpoints import Endpoint, resolve_judges
from plumbline.models.chat.request_forms import describe_difference
from plumbline.models.chat.resilient_endpoint import ResilientEndpoint, RetryPolicy

_FAILED: Final = 1
_SHOWN_CHARACTERS: Final = 600
# What of a request is shown in full on demand alone.
_TEXT_FIELDS: Final = ("messages", "input", "state", "questions")
_IS_SUPPORTED: Final = (True, False, False)
# A code of an error: Throttling.RateQuota, model_not_found, 402
_WORD: Final = re.compile(r"\w+(?:\.\w+)*")
_JUDGE_SAID: Final = "judge_said_"
_CHECK_REFUTES, _ACCUSATION_DOUBTFUL = "check_refutes", "accusation_doubtful"


def check_judges(options: argparse.Namespace) -> int:
    settings = load_settings()
    configure_logging("ERROR")
    judges = resolve_judges(settings)
    if not judges:
        raise ConfigurationError(CodedText("no_judge_configured"))
    if unknown := [name for name in options.names if name not in judges]:
        raise ConfigurationError(CodedText("judge_unknown", name=unknown[0], names=tuple(judges)))
    checked = [(name, endpoint) for name in options.names or judges for endpoint in judges[name]]
    good = []
    for name, endpoint in checked:
        check = check_endpoint(endpoint, settings, seconds=options.seconds, language=options.language)
        _show(name, check, is_full=options.full)
        good.append(check.failure is None)
    return 0 if all(good) else _FAILED


class EndpointCheck(NamedTuple):
    """The judgement of one endpoint on our sample: the verdicts of its three sentences, empty without an answer.

    `failure`: what is wrong with it, and what to do; None: usable.
    """

    endpoint: Endpoint
    exchanges: Sequence[Exchange]
    result: SampleResult
    verdicts: Sequence[str]
    failure: tuple[str, str] | None

    @property
    def form(self) -> str:
        """The form of request that it answered: the kind of reply, and what was left out as it refused it."""

        if not self.exchanges:
            return "plain"
        last = self.exchanges[-1]
        if "questions" in last.sent:
            return _kind(last)
        return ", ".join([_kind(last), *describe_difference(self.exchanges[0].sent, last.sent)])


def check_endpoint(
    endpoint: Endpoint, settings: Settings, *, seconds: float | None = None, language: str = "en"
) -> EndpointCheck:
    """Judge our sample with one endpoint alone."""
    texts = load_data("cli/doctor")
    sample, advice = Sample(**texts["samples"][language]), texts["advice"]
    exchanges: list[Exchange] = []
    result = asyncio.run(_ask(endpoint, settings, sample, seconds or settings.deadline_seconds, exchanges))
    (attempt,) = result.attempts
    if not attempt.answered:
        refused = [each for each in exchanges[-1:] if each.status >= HTTPStatus.BAD_REQUEST]
        said = [f"{each.status} {each.body.decode('utf-8', errors='replace')}" for each in refused]
        known = find_advice(endpoint, said[0]) if said else None
        silence = f"{attempt.reason}: {attempt.detail}", known or advice.get(attempt.reason or "", advice["other"])
        return EndpointCheck(endpoint, exchanges, result, (), silence)
    by_sentence = {claim.sentence: claim for claim in reversed(result.claims)}
    verdicts = [_own_verdict(by_sentence[position]) for position in range(len(_IS_SUPPORTED))]
    is_good = all(_is_right(verdicts))
    failure = None if is_good else (f"wrong verdicts: {advice['other']}", advice["other"])
    return EndpointCheck(endpoint, exchanges, result, verdicts, failure)


def find_advice(endpoint: Endpoint, said: str, *, settings: str = "PLUMBLINE_LLM") -> str | None:
    """Return the advice on a refused call, None where none of its codes is known; `settings`: of its variables."""
    text = said.lower()
    words = set(_WORD.findall(text))
    for rule in load_data("cli/doctor")["errors"]:
        fits = any(each.lower() in words for each in rule["codes"]) or any(
            each in text for each in rule.get("says", ())
        )
        if fits and endpoint.provider.name in rule.get("providers", (endpoint.provider.name,)):
            return str(rule["advice"]).format(model=endpoint.model, url=endpoint.base_url, settings=settings)
    return None


def _is_right(verdicts: Sequence[str]) -> list[bool]:
    return [(said == "supported") == wanted for said, wanted in zip(verdicts, _IS_SUPPORTED, strict=True)]


def _show(name: str, check: EndpointCheck, *, is_full: bool) -> None:
    endpoint, usage = check.endpoint, check.result.usage
    sys.stdout.write(f"{name}: {endpoint.place}\n")
    for exchange in check.exchanges:
        for title, text in _describe(exchange, is_full=is_full):
            safe = safe_line(text, endpoint)
            if not is_full and len(safe) > _SHOWN_CHARACTERS:
                safe = f"{safe[:_SHOWN_CHARACTERS]}... ({len(safe)} characters; --full shows all)"
            _print_line(title, safe)
    cost = "not known" if usage.cost is None else f"{usage.cost:.6f}"
    tokens = f"{usage.prompt_tokens} tokens in, {usage.completion_tokens} out"
    _print_line("used", f"{usage.calls} calls, {tokens}; cost {cost}")
    if check.failure is not None and not check.verdicts:
        _print_line("failed", safe_line(check.failure[0], endpoint))
        _print_line("do", check.failure[1])
        return
    said = zip(check.verdicts, _is_right(check.verdicts), strict=True)
    _print_line("verdicts", ", ".join(f"{verdict} ({'right' if right else 'wrong'})" for verdict, right in said))
    if check.result.flags:
        _print_line("flags", ", ".join(check.result.flags))
    _print_line("result", check.failure[0] if check.failure else f"usable, replies as {check.form}")


def _own_verdict(claim: Claim) -> str:
    """Return the judge's verdict, also where a check of ours lowered it."""
    if {_CHECK_REFUTES, _ACCUSATION_DOUBTFUL} & set(claim.flags) == {_CHECK_REFUTES}:
        return "supported"
    said = (flag.removeprefix(_JUDGE_SAID) for flag in claim.flags if flag.startswith(_JUDGE_SAID))
    return next(said, claim.verdict.value)


async def _ask(
    endpoint: Endpoint, settings: Settings, sample: Sample, seconds: float, exchanges: list[Exchange]
) -> SampleResult:

    asked = ResilientEndpoint(
        endpoint,
        ModelHealth(endpoint.provider),
        Tariff((settings.llm_prices or {}).get(endpoint.model)),
        RetryPolicy(attempts=1),
        on_exchange=exchanges.append,
    )
    chat = FailoverChatModel("checked", [asked])
    async with AsyncExitStack() as stack:
        stack.push_async_callback(chat.close)
        plan = make_plan(settings.model_copy(update={"warm_up": False}))
        service = build(plan, stack, chats={chat.name: chat})
        return await service.scorer.score(sample, JudgeOptions(tiers=(TierName.LLM,), deadline_seconds=seconds))


def _describe(exchange: Exchange, *, is_full: bool) -> Sequence[tuple[str, str]]:
    texts = {name: exchange.sent[name] for name in _TEXT_FIELDS if name in exchange.sent}
    fields = {name: value for name, value in exchange.sent.items() if name not in (*texts, "response_format")}
    length = len(str(list(texts.values())))
    sent = f"POST {exchange.url}, reply as {_kind(exchange)}, {length} characters of {' and '.join(texts)}, "
    lines = [("sent", sent + json.dumps(fields, ensure_ascii=False))]
    if is_full:
        lines += [(name, json.dumps(text, ensure_ascii=False, indent=2)) for name, text in texts.items()]
    words = exchange.body.decode("utf-8", errors="replace").strip()
    lines.append((f"HTTP {exchange.status}", f"after {exchange.seconds:.2f} s: {words or '(nothing)'}"))
    return lines


def _kind(exchange: Exchange) -> str:
    form = exchange.sent.get("response_format")
    if "questions" in exchange.sent:
        return exchange.url.rpartition("/")[2]
    return str(form["type"]) if isinstance(form, dict) else "plain"


def _print_line(title: str, text: str) -> None:
    sys.stdout.write(f"  {title:<9} {text}\n")


def safe_line(text: str, endpoint: Endpoint | None = None) -> str:
    """Return the text without secrets and without control characters, which a terminal would obey."""
    for secret in endpoint.secrets if endpoint else ():
        for form in (secret, json.dumps(secret)[1:-1]):
            text = text.replace(form, "***") if form else text
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
