"""Assembly of batch-file scoring: the usual scoring path, with files in place of a chat model."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from plumbline.assembly import build, make_plan
from plumbline.extras.provider_batches.batch_client import BatchClient
from plumbline.extras.provider_batches.batch_file_chat import (
    AskedFile,
    BatchFileChatModel,
    Correspondence,
    OpenQuestion,
)
from plumbline.extras.provider_batches.manifest import JudgeSpec, Manifest, ManifestFile, RequestFile, RequestFiles
from plumbline.extras.provider_batches.submission import BatchStates, reply_paths
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import ConfigurationError, InvalidInput
from plumbline.ground.files import atomic_write
from plumbline.ground.judge_settings import DEFAULT_JUDGE, ModelPrice
from plumbline.ground.settings import Settings
from plumbline.ground.version import VERSION
from plumbline.judging.tiers.llm import PromptSet
from plumbline.judging.tiers.questions import keyed_mark
from plumbline.models.chat.completions import RequestForm
from plumbline.models.chat.endpoints import Endpoint, Structure, resolve_judges
from plumbline.models.chat.resilient_endpoint import Tariff
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import RowStatus, ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions, TierName

_ROW_LIMITS: Final = ("max_contexts", "max_context_characters", "max_answer_characters", "max_question_characters")
# Nobody waits for a single row here, and a busy machine must not cost one its tier.
_DEADLINE_SECONDS: Final = 600.0
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of one run. `price_factor`: a batch's price relative to the price table."""

    fallback: tuple[TierName, ...]
    threshold: float | None = None
    price_factor: float = 0.5


def find_endpoint(settings: Settings, judge: str) -> Endpoint:
    """Return the first endpoint of a judge; batches have no failover.

    Raises:
        ConfigurationError: there is no such judge.
    """
    judges = resolve_judges(settings)
    if not judges:
        raise ConfigurationError(
            "no judge is configured; set DASHSCOPE_API_KEY, or PLUMBLINE_LLM_API_KEY with a provider"
        )
    if judge not in judges:
        raise ConfigurationError(f"no judge is named {judge!r}; there are {', '.join(judges)}")
    return judges[judge][0]


def build_judge_spec(settings: Settings, judge: str, *, structure: str | None, omitted: Sequence[str]) -> JudgeSpec:
    """Build a manifest's entry for the judge; `structure` None: the strictest reply format of its provider.

    Raises:
        ConfigurationError: as `find_endpoint`.
    """
    endpoint = find_endpoint(settings, judge)
    return JudgeSpec(
        name=judge,
        provider=endpoint.provider.name,
        base_url=endpoint.base_url,
        model=endpoint.model,
        context_tokens=endpoint.context_tokens,
        max_output_tokens=settings.llm_max_output_tokens,
        structure=structure or endpoint.provider.structure,
        omitted=tuple(sorted(set(omitted))),
        extra_body=endpoint.extra_body,
    )


def find_batch_endpoint(settings: Settings, manifest: Manifest) -> Endpoint:
    """Return the endpoint that a manifest's files are for, with the key of the settings.

    Raises:
        ConfigurationError: the settings name another provider or address.
    """
    spec = manifest.judge
    endpoint = find_endpoint(settings, spec.name)
    if (endpoint.provider.name, endpoint.base_url) != (spec.provider, spec.base_url):
        raise ConfigurationError(
            f"the batch files were prepared for {spec.provider} at {spec.base_url}; the judge {spec.name!r} is now "
            f"{endpoint.provider.name} at {endpoint.base_url}"
        )
    return replace(endpoint, model=spec.model, context_tokens=spec.context_tokens, extra_body=spec.extra_body)


def row_limits(settings: Settings) -> Mapping[str, int]:
    """Return the limits on a row that a manifest records."""
    return {name: getattr(settings, name) for name in _ROW_LIMITS}


def prompt_digests(settings: Settings, metrics: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the digests of the prompts in use, by label."""
    return _digests(make_plan(settings).prompts, metrics)


@asynccontextmanager
async def batch_api(settings: Settings, manifest: Manifest) -> AsyncIterator[BatchClient]:
    """Open the Batch API that the files of a manifest are sent to.

    Raises:
        ConfigurationError: as `find_batch_endpoint`.
    """
    client = BatchClient(find_batch_endpoint(settings, manifest))
    try:
        yield client
    finally:
        await client.close()


def estimate_cost(
    settings: Settings, manifest: Manifest, *, prompt_tokens: int, output_tokens: int, factor: float
) -> float | None:
    """Return the cost of so many tokens in a batch; None if the price table lacks the model."""
    price = (settings.llm_prices or {}).get(manifest.judge.model)
    return None if price is None else (prompt_tokens * price.input + output_tokens * price.output) * factor / _MILLION


@asynccontextmanager
async def row_scorer(
    settings: Settings,
    manifest: Manifest,
    files: Correspondence,
    choices: Choices,
) -> AsyncIterator[RowScorer]:
    """Open a row scorer like the service's, whose judge reads batch files.

    Raises:
        ConfigurationError: prompts or judge are not those of the manifest.
    """
    offline = _offline(settings, manifest)
    plan = make_plan(offline)
    if _digests(plan.prompts, manifest.metrics) != dict(manifest.prompts):
        raise ConfigurationError(
            f"PLUMBLINE_PROMPTS_DIR: the prompts are not those of the batch files, which plumbline "
            f"{manifest.plumbline} prepared; this is {VERSION}"
        )
    spec = manifest.judge
    chat = BatchFileChatModel(
        spec.name,
        find_batch_endpoint(settings, manifest),
        _form(settings, manifest),
        _tariff(settings, manifest, choices),
        files,
    )
    options = EvaluationOptions(
        tiers=["llm", *choices.fallback],
        threshold=choices.threshold,
        judges=None if spec.name == DEFAULT_JUDGE else [spec.name],
        **manifest.metrics,
    )
    async with AsyncExitStack() as stack:
        service = build(plan, stack, chats={spec.name: chat}, mark=keyed_mark(bytes.fromhex(manifest.secret)))
        yield RowScorer(service.scorer, offline, options, judge_names=(spec.name,))


def _offline(settings: Settings, manifest: Manifest) -> Settings:
    was_second = any(label.startswith("verify_claims/v2.") for label in manifest.prompts)
    changes = {
        **manifest.row_limits,
        "prompts_version": "v2" if was_second else settings.prompts_version,
        "llm_controls": manifest.controls,
        "llm_max_output_tokens": manifest.judge.max_output_tokens,
        "deadline_seconds": _DEADLINE_SECONDS,
        # What a batch did cost is spent.
        "llm_max_cost": None,
        "warm_up": False,
    }
    return settings.model_copy(update=changes)


def _digests(prompts: PromptSet, metrics: Mapping[str, Any]) -> dict[str, str]:
    libraries = (prompts.verify, prompts.check, *([prompts.metrics] if metrics else []))
    return {prompt.label: prompt.digest for library in libraries for prompt in library}


def _form(settings: Settings, manifest: Manifest) -> RequestForm:
    spec = manifest.judge
    return RequestForm(
        cast(Structure, spec.structure),
        find_endpoint(settings, spec.name).provider.token_limit,
        sends_temperature="temperature" not in spec.omitted,
        sends_thinking_off="thinking" not in spec.omitted,
    )


def _tariff(settings: Settings, manifest: Manifest, choices: Choices) -> Tariff:
    price = (settings.llm_prices or {}).get(manifest.judge.model)
    if price is None:
        return Tariff(None)
    factor = choices.price_factor
    cached = None if price.cached is None else price.cached * factor
    return Tariff(ModelPrice(input=price.input * factor, output=price.output * factor, cached=cached))


_ROWS_AT_ONCE: Final = 16


class AskedRow(NamedTuple):
    """A row scored with the replies so far. `open`: requests without a reply."""

    scored: ScoredRow
    open: list[OpenQuestion]


def score_rows(
    rows: Iterable[Record | RecordProblem],
    score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]],
    correspondence: Correspondence,
) -> AsyncGenerator[AskedRow, None]:
    """Score rows and yield them in order. `score` uses chat models behind the correspondence."""

    async def work(row: Record | RecordProblem) -> AskedRow:
        with correspondence.about(row.row) as requests:
            scored = await score(row)
        return AskedRow(scored, requests.unanswered())

    return map_concurrently(work, rows, limit=_ROWS_AT_ONCE, in_order=True)


@dataclass(slots=True)
class Estimate:
    """Requests and tokens of rows: estimated from above, and output tokens as they usually are."""

    rows: int = 0
    invalid: int = 0
    decided: int = 0
    unaskable: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    max_output_tokens: int = 0
    expected_output_tokens: int = 0

    def add(self, row: AskedRow) -> None:
        """Count a row."""
        self.rows += 1
        self.requests += len(row.open)
        for open_question in row.open:
            question = open_question.question
            self.prompt_tokens += question.prompt_tokens
            self.max_output_tokens += question.max_output_tokens
            self.expected_output_tokens += question.expected_output_tokens
        status = row.scored.status
        self.invalid += status in (RowStatus.INVALID, RowStatus.FAILED)
        if not row.open:
            self.unaskable += status is RowStatus.NOT_JUDGED
            self.decided += status in (RowStatus.JUDGED, RowStatus.ABSTAINED, RowStatus.EMPTY_ANSWER)


Score = Callable[[Record | RecordProblem], Awaitable[ScoredRow]]


async def prepare(
    at: ManifestFile,
    manifest: Manifest,
    rows: Iterable[Record | RecordProblem],
    score: Score,
    correspondence: Correspondence,
    *,
    is_dry: bool = False,
) -> tuple[Manifest, Estimate]:
    """Write the request files and return the manifest and the estimate; equal arguments write equal bytes.

    Args:
        manifest: all but rows and files.
        is_dry: count alone and write nothing.

    Raises:
        InvalidInput: the rows cannot be read to their end, or a file cannot be written.
    """
    estimate = Estimate()
    with RequestFiles(at.folder, at.stem, manifest.limits) as files:
        async with aclosing(score_rows(rows, score, correspondence)) as asked:
            async for row in asked:
                estimate.add(row)
                for question in () if is_dry else row.open:
                    files.add(question.line)
        manifest = replace(manifest, rows=estimate.rows, files=files.finish())
    if not is_dry:
        at.save(manifest)
    return manifest, estimate


def files_sent(manifest: Manifest, states: BatchStates) -> list[RequestFile]:
    """Return the files whose replies count: all but later rounds that were never submitted."""
    return [file for file in manifest.files if file.round == 1 or states.of(file.name).is_upload_begun]


def asked_files(at: ManifestFile, files: Iterable[RequestFile], states: BatchStates) -> list[AskedFile]:
    """Return the files with their replies, later rounds first, as their replies are newer."""
    found = []
    for file in sorted(files, key=lambda file: -file.round):
        batch = states.of(file.name).batch
        replies = [path for path in reply_paths(at, file) if path.exists()]
        found.append(AskedFile(at.folder / file.name, replies, "" if batch is None else batch.status))
    return found


async def collect(
    rows: Iterable[Record | RecordProblem],
    score: Score,
    correspondence: Correspondence,
    output: Path,
    *,
    next_round: RequestFiles | None,
    tell: Callable[[ScoredRow], None],
) -> tuple[Estimate, tuple[RequestFile, ...]]:
    """Write the results of all rows, and the open requests into `next_round`.

    Returns what the open questions ask, and the files of the next round.

    Raises:
        InvalidInput: the rows cannot be read to their end, or a file cannot be written.
    """
    estimate = Estimate()
    try:
        with atomic_write(output) as file:
            async with aclosing(score_rows(rows, score, correspondence)) as asked:
                async for row in asked:
                    file.write(row.scored.line + b"\n")
                    estimate.add(row)
                    tell(row.scored)
                    if next_round is not None:
                        for question in row.open:
                            next_round.add(question.line)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=output.name) from error
    return estimate, () if next_round is None else next_round.finish()
