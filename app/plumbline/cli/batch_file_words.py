"""What the steps of `plumbline batch-file` say: outcomes on standard output, troubles on standard error."""

import sys
from collections.abc import Sequence
from typing import Final

from plumbline.extras.provider_batches.batch_assembly import cost_of
from plumbline.extras.provider_batches.batch_states import BatchStates
from plumbline.extras.provider_batches.manifest import Manifest
from plumbline.extras.provider_batches.reply_index import ReplyIndex
from plumbline.extras.provider_batches.request_files import RequestFile
from plumbline.extras.provider_batches.rows_asked import Estimate
from plumbline.extras.provider_batches.sending import described
from plumbline.ground.settings import Settings
from plumbline.schemas.batch import BatchSummary

# As the calls of the service expect it.
_EXPECTED_OUTPUT_TOKENS: Final = 512


def say_estimate(settings: Settings, manifest: Manifest, estimate: Estimate, factor: float) -> None:
    """What is to be asked, and what it may cost."""
    asked = estimate.rows - estimate.invalid - estimate.decided - estimate.unaskable
    out(
        f"{estimate.rows} rows: {asked} to be asked, "
        f"{estimate.decided} decided without a judge, {estimate.unaskable} too long for it, {estimate.invalid} invalid"
    )
    expected = min(estimate.max_output_tokens, estimate.requests * _EXPECTED_OUTPUT_TOKENS)
    out(
        f"{estimate.requests} requests to {manifest.judge.model}: about {estimate.prompt_tokens} tokens in, "
        f"{expected} out, {estimate.max_output_tokens} at most; second looks, where asked for, come on top"
    )
    tokens_out = (expected, estimate.max_output_tokens)
    costs = [
        cost_of(settings, manifest, prompt_tokens=estimate.prompt_tokens, output_tokens=tokens, factor=factor)
        for tokens in tokens_out
    ]
    if costs[0] is None or costs[1] is None:
        out(f"cost: not known; PLUMBLINE_LLM_PRICES has no price of {manifest.judge.model}")
    else:
        out(f"cost: about {costs[0]:.4f}, at most {costs[1]:.4f}, at {factor:g} of the price table's prices")


def say_troubles(files: Sequence[RequestFile], states: BatchStates, index: ReplyIndex) -> None:
    """Batches that did not end well, and lines of replies that were passed over."""
    for file in files:
        batch = states.of(file.name).batch
        if batch is not None and (batch.status != "completed" or batch.failed):
            note(f"{file.name}: {described(states.of(file.name))}")
    odd = {"unreadable": index.unreadable, "of no question": index.unasked, "repeated": index.repeated}
    if any(odd.values()):
        counts = ", ".join(f"{count} {name}" for name, count in odd.items() if count)
        note(f"lines of replies passed over: {counts}")


def say_open(estimate: Estimate, names: Sequence[str]) -> None:
    """Questions that have no reply yet."""
    if names:
        out(f"written: {', '.join(names)}, {estimate.requests} questions that are still open; submit and collect again")
    else:
        out(f"{estimate.requests} questions are still open; --next-round writes them as files to be submitted")


def summed(summary: BatchSummary) -> str:
    """What became of all rows, in one line."""
    tiers = ", ".join(f"{name} {count}" for name, count in summary.tiers.model_dump().items() if count) or "none"
    cost = "not known" if summary.usage.cost is None else f"{summary.usage.cost:.4f}"
    return (
        f"{summary.rows} rows: {summary.judged} judged, {summary.abstained} abstained, {summary.empty_answer} empty, "
        f"{summary.not_judged} not judged, {summary.errors} errors; tiers: {tiers}; {summary.degraded} degraded; "
        f"tokens {summary.usage.prompt_tokens} in, {summary.usage.completion_tokens} out; cost {cost}"
    )


def out(line: str) -> None:
    """One line for who reads the outcome."""
    sys.stdout.write(f"{line}\n")


def note(line: str) -> None:
    """One line for who watches."""
    sys.stderr.write(f"{line}\n")
