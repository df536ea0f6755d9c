"""Rows through the usual scoring path, with batch files in place of a chat model."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final

import msgspec

from plumbline.assembly import build, make_plan
from plumbline.extras.provider_batches.batch_file_chat import ROW, BatchFileChatModel, RowQuestions
from plumbline.extras.provider_batches.manifest import Manifest
from plumbline.extras.provider_batches.replies import ReplyIndex
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import DEFAULT_JUDGE
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.questions import keyed_mark
from plumbline.models.chat.call_limits import Tariff
from plumbline.models.chat.endpoints import Endpoint, resolve_judges
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions
from plumbline.schemas.result_parts import TierName

_ASKED_BY: Final = (
    "max_contexts", "max_context_characters", "max_answer_characters", "max_question_characters",
    "llm_max_output_tokens", "llm_controls",
)  # fmt: skip
# Nobody waits for a single row here, and a busy machine must not cost one its tier.
_DEADLINE_SECONDS: Final = 600.0
_ROWS_AT_ONCE: Final = 16


def find_endpoint(settings: Settings, judge: str) -> Endpoint:
    """Return the first endpoint of a judge, as batches have no failover; raise ConfigurationError if there is none."""
    judges = resolve_judges(settings)
    if not judges:
        raise ConfigurationError(CodedText("no_judge_configured"))
    if judge not in judges:
        raise ConfigurationError(CodedText("judge_unknown", name=judge, names=tuple(judges)))
    endpoint = judges[judge][0]
    if endpoint.api not in (None, "chat"):
        raise ConfigurationError(CodedText("no_batches_of_decisions", name=judge))
    return endpoint


def describe_asking(settings: Settings, judge: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return whatever of the settings decides on the questions, as a manifest records it."""
    endpoint, prompts = find_endpoint(settings, judge), make_plan(settings).prompts
    used = [
        prompt
        for each in prompts.values()
        for prompt in (each.verify, each.check, *([each.metrics] if metrics else []))
    ]
    asking = {
        "provider": endpoint.provider.name,
        **{name: getattr(endpoint, name) for name in ("base_url", "model", "context_tokens", "extra_body")},
        **{name: getattr(settings, name) for name in _ASKED_BY},
        "prompts": {prompt.label: prompt.digest for prompt in used},
    }
    return msgspec.json.decode(msgspec.json.encode(asking), type=dict[str, Any])


def check_asking(settings: Settings, manifest: Manifest) -> Endpoint:
    """Return the endpoint of the run's files; raise ConfigurationError if the settings ask otherwise by now."""
    now = describe_asking(settings, manifest.judge, manifest.metrics)
    changed = [name for name in {**manifest.asked, **now} if manifest.asked.get(name) != now.get(name)]
    if changed:
        raise ConfigurationError(
            f"settings changed since the batch files were prepared: {', '.join(changed)}; expected the values of "
            "`asked` in the manifest, or files that are prepared anew"
        )
    return find_endpoint(settings, manifest.judge)


async def ask_rows(
    settings: Settings,
    manifest: Manifest,
    rows: Iterable[Record | RecordProblem],
    replies: ReplyIndex,
    *,
    fallback: Iterable[TierName] = (),
    threshold: float | None = None,
) -> AsyncGenerator[tuple[ScoredRow, RowQuestions], None]:
    """Score rows as the service does, by batch files; yield each with its questions; raise ConfigurationError."""
    endpoint, judge = check_asking(settings, manifest), manifest.judge
    # What a batch did cost is spent.
    changes = {"deadline_seconds": _DEADLINE_SECONDS, "llm_max_cost": None, "warm_up": False}
    offline = settings.model_copy(update=changes)
    tariff = Tariff((settings.llm_prices or {}).get(endpoint.model))
    chat = BatchFileChatModel(judge, endpoint, tariff, url=manifest.url, replies=replies)
    options = EvaluationOptions(
        tiers=["llm", *fallback],
        threshold=threshold,
        judges=None if judge == DEFAULT_JUDGE else [judge],
        **manifest.metrics,
    )
    async with AsyncExitStack() as stack:
        mark = keyed_mark(bytes.fromhex(manifest.secret))
        service = build(make_plan(offline), stack, chats={judge: chat}, mark=mark)
        scorer = RowScorer(service.scorer, offline, options, judge_names=(judge,))

        async def ask(row: Record | RecordProblem) -> tuple[ScoredRow, RowQuestions]:
            questions = RowQuestions(row.row)
            ROW.set(questions)
            return await scorer.score(row), questions

        async with aclosing(map_concurrently(ask, rows, limit=_ROWS_AT_ONCE, in_order=True)) as asked:
            async for row in asked:
                yield row
