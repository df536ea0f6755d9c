"""`plumbline doctor judge`: judge a small sample of ours with each configured address, and show what came back."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from plumbline.cli import Commands
from plumbline.ground.errors import ConfigurationError, FailureReason
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import Sample

if TYPE_CHECKING:
    from plumbline.judging.sample_result import SampleResult
    from plumbline.judging.text.verdicts import Claim
    from plumbline.models.chat.api_client import Exchange
    from plumbline.models.chat.endpoints import Endpoint


_FAILED: Final = 1
_SHOWN_CHARACTERS: Final = 600
# The first sentence is supported; the second is contradicted, and the third stands nowhere.
_SAMPLES: Final[Mapping[str, Sample]] = MappingProxyType(
    {
        "en": Sample(
            "What is known of the lighthouse?",
            (
                "The Marlow lighthouse was built in 1887 and is 41 metres high.",
                "It is open to visitors from May to September.",
            ),
            "The Marlow lighthouse was built in 1887. It is 65 metres high. Its lamp was made in Denmark.",
        ),
        "zh": Sample(
            "这座灯塔有哪些资料？",
            ("青屿灯塔建于1887年，高41米。", "灯塔每年5月至9月对游客开放。"),
            "青屿灯塔建于1887年。灯塔高65米。塔上的灯是丹麦制造的。",
        ),
    }
)
_IS_SUPPORTED: Final = (True, False, False)
_JUDGE_SAID: Final = "judge_said_"
_NO_THOUGHT: Final = "keep the model from thinking (PLUMBLINE_LLM_EXTRA_BODY)"
_ADVICE: Final[Mapping[FailureReason, str]] = MappingProxyType(
    {
        FailureReason.AUTHENTICATION: "check the key; one of DashScope belongs to one region: dashscope or "
        "dashscope-intl",
        FailureReason.CONNECTION: "check the base URL, and the proxy (HTTPS_PROXY, NO_PROXY) and certificates "
        "(SSL_CERT_FILE) on the way",
        FailureReason.TIMEOUT: f"allow more time (--seconds; PLUMBLINE_DEADLINE_SECONDS), or {_NO_THOUGHT}",
        FailureReason.RATE_LIMITED: "look at the account's credit and limits; PLUMBLINE_LLM_RPM and "
        "PLUMBLINE_LLM_TPM keep calls below them",
        FailureReason.REJECTED: "read the provider's words above; check the model's name and the base URL, most end "
        "in /v1; PLUMBLINE_LLM_EXTRA_BODY='{\"FIELD\": null}' leaves a field out",
        FailureReason.CONTENT_FILTERED: "the provider's filter stops a harmless text: turn it down, with a header in "
        "PLUMBLINE_LLM_EXTRA_HEADERS for example",
        FailureReason.UPSTREAM_ERROR: "read the provider's words above, and the server's own log",
        FailureReason.EMPTY_REPLY: f"{_NO_THOUGHT}, or raise PLUMBLINE_LLM_MAX_OUTPUT_TOKENS",
        FailureReason.TRUNCATED_REPLY: f"{_NO_THOUGHT}, or raise PLUMBLINE_LLM_MAX_OUTPUT_TOKENS",
        FailureReason.INVALID_REPLY: "the model does not keep to the form of the reply: take a stronger one, or a "
        "provider that holds replies to a schema",
        FailureReason.FOREIGN_REPLY: "look for a proxy or gateway on the way that mixes up replies, or sends one twice",
        FailureReason.TOO_LONG: "set PLUMBLINE_LLM_CONTEXT_TOKENS to the model's window, start the server with a "
        "larger one, or lower PLUMBLINE_LLM_MAX_OUTPUT_TOKENS",
    }
)
_TOO_WEAK: Final = "the model is too weak a judge: take a stronger one"


def add_judge_check(parts: Commands) -> None:
    """Add `doctor judge` to the parser."""
    check = parts.add_parser(
        "judge",
        help="ask each address of each judge about a sample of ours, and show what came back",
        description="Ask each address of the judges in the settings (PLUMBLINE_LLM_...) about one sample of ours, "
        "and show what was sent, the provider's own words, the form of reply that it accepts, tokens, seconds, and if "
        "the verdicts are right. Keys and the values of extra headers are never shown. Exit code 0: all are right; 1: "
        "an address does not work or judges wrongly; 2: the settings are wrong.",
    )
    check.add_argument("names", nargs="*", metavar="NAME", help="judges (default: all of the settings)")
    check.add_argument("--seconds", type=float, metavar="S", help="time for each address (default: the deadline)")
    check.add_argument(
        "--language", choices=tuple(_SAMPLES), default="en", help="language of the sample (default: %(default)s)"
    )
    check.add_argument("--full", action="store_true", help="show whole messages and replies")
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    # late: the HTTP stack takes tenths of a second
    from plumbline.models.chat.endpoints import resolve_judges  # noqa: PLC0415

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
    """The judgement of one endpoint on our sample.

    `verdicts`: of its three sentences in order, empty without an answer. `failure`: what is wrong with it, and what to
    do; None: usable.
    """

    endpoint: "Endpoint"
    exchanges: "Sequence[Exchange]"
    result: "SampleResult"
    verdicts: Sequence[str]
    failure: tuple[str, str] | None

    @property
    def structure(self) -> str:
        """The form of reply that it accepted."""
        return _kind(self.exchanges[-1]) if self.exchanges else "plain"


def check_endpoint(
    endpoint: "Endpoint", settings: Settings, *, seconds: float | None = None, language: str = "en"
) -> EndpointCheck:
    """Judge our sample with one endpoint alone."""
    exchanges: list[Exchange] = []
    sample = _SAMPLES[language]
    result = asyncio.run(_ask(endpoint, settings, sample, seconds or settings.deadline_seconds, exchanges))
    (attempt,) = result.attempts
    verdicts: list[str] = []
    failure: tuple[str, str] | None = None
    if attempt.answered:
        by_sentence = {claim.sentence: claim for claim in reversed(result.claims)}
        verdicts = [_own_verdict(by_sentence[position]) for position in range(len(_IS_SUPPORTED))]
        if not all(_is_right(verdicts)):
            failure = (f"wrong verdicts: {_TOO_WEAK}", _TOO_WEAK)
    else:
        advice = _ADVICE.get(attempt.reason, _TOO_WEAK) if attempt.reason else _TOO_WEAK
        failure = (f"{attempt.reason}: {attempt.detail}", advice)
    return EndpointCheck(endpoint, exchanges, result, verdicts, failure)


def _is_right(verdicts: Sequence[str]) -> list[bool]:
    return [(said == "supported") == wanted for said, wanted in zip(verdicts, _IS_SUPPORTED, strict=True)]


def _show(name: str, check: EndpointCheck, *, is_full: bool) -> None:
    endpoint, usage = check.endpoint, check.result.usage
    sys.stdout.write(f"{name}: {endpoint.place}\n")
    for exchange in check.exchanges:
        for title, text in _describe(exchange, is_full=is_full):
            _tell(title, text, endpoint, limit=None if is_full else _SHOWN_CHARACTERS)
    cost = "not known" if usage.cost is None else f"{usage.cost:.6f}"
    _tell("used", f"{usage.calls} calls, {usage.prompt_tokens} tokens in, {usage.completion_tokens} out; cost {cost}")
    if check.failure is not None and not check.verdicts:
        _tell("failed", check.failure[0], endpoint)
        _tell("do", check.failure[1])
        return
    said = zip(check.verdicts, _is_right(check.verdicts), strict=True)
    _tell("verdicts", ", ".join(f"{verdict} ({'right' if right else 'wrong'})" for verdict, right in said))
    if check.result.flags:
        _tell("flags", ", ".join(check.result.flags))
    _tell("result", check.failure[0] if check.failure else f"usable, replies as {check.structure}")


def _own_verdict(claim: "Claim") -> str:
    """Return the judge's verdict, also where a check of ours lowered it."""
    said = (flag.removeprefix(_JUDGE_SAID) for flag in claim.flags if flag.startswith(_JUDGE_SAID))
    return next(said, claim.verdict.value)


async def _ask(
    endpoint: "Endpoint", settings: Settings, sample: Sample, seconds: float, exchanges: "list[Exchange]"
) -> "SampleResult":
    from plumbline.assembly import build, make_plan  # noqa: PLC0415
    from plumbline.judging.tiers.tier import JudgeOptions, TierName  # noqa: PLC0415
    from plumbline.models.chat.chat_models import FailoverChatModel  # noqa: PLC0415
    from plumbline.models.chat.endpoint_guard import ModelHealth  # noqa: PLC0415
    from plumbline.models.chat.resilient_endpoint import (  # noqa: PLC0415
        ResilientEndpoint,
        RetryPolicy,
        Tariff,
    )

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


def _describe(exchange: "Exchange", *, is_full: bool) -> Sequence[tuple[str, str]]:
    messages = exchange.sent.get("messages")
    fields = {name: value for name, value in exchange.sent.items() if name not in ("messages", "response_format")}
    sent = f"POST {exchange.url}, reply as {_kind(exchange)}, {len(str(messages))} characters of messages, "
    lines = [("sent", sent + json.dumps(fields, ensure_ascii=False))]
    if is_full:
        lines.append(("messages", json.dumps(messages, ensure_ascii=False, indent=2)))
    words = exchange.body.decode("utf-8", errors="replace").strip()
    lines.append((f"HTTP {exchange.status}", f"after {exchange.seconds:.2f} s: {words or '(nothing)'}"))
    return lines


def _kind(exchange: "Exchange") -> str:
    form = exchange.sent.get("response_format")
    return str(form["type"]) if isinstance(form, dict) else "plain"


def _tell(title: str, text: str, endpoint: "Endpoint | None" = None, *, limit: int | None = None) -> None:
    text = safe_line(text, endpoint)
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}... ({len(text)} characters; --full shows all)"
    sys.stdout.write(f"  {title:<9} {text}\n")


def safe_line(text: str, endpoint: "Endpoint | None" = None) -> str:
    """Return the text without secrets and without control characters, which a terminal would obey."""
    for secret in endpoint.secrets if endpoint else ():
        for form in (secret, json.dumps(secret)[1:-1]):
            text = text.replace(form, "***") if form else text
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
