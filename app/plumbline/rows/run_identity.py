"""Identity of a run: everything that decides a result besides its row. Runs with equal identities can be resumed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from plumbline.ground.version import VERSION
from plumbline.schemas.evaluation import EvaluationOptions

if TYPE_CHECKING:
    from plumbline.ground.settings import Settings
    from plumbline.judging.judge.questions import PromptSet
    from plumbline.judging.tiers.calibration import CalibrationTable

Choice = str | int | float | bool | list[str] | None

_SETTINGS: Final = (
    "embedding_model",
    "embedding_provider",
    "embedding_dimensions",
    "embedding_precision",
    "max_contexts",
    "max_context_characters",
    "max_answer_characters",
    "max_question_characters",
)
_DIGEST_CHARACTERS: Final = 12
_MAX_DIFFERENCES: Final = 5


def option_identity(options: EvaluationOptions) -> dict[str, Choice]:
    """Return the options of every row that decide a result by themselves, without threshold and deadline."""
    return options.model_dump(exclude={"threshold", "deadline_seconds", "max_cost", "offset_unit"})


def run_identity(
    settings: "Settings",
    options: EvaluationOptions,
    *,
    calibrations: "CalibrationTable",
    prompts: "PromptSet | None",
    judges: Sequence[str],
) -> dict[str, Choice]:
    """Return the identity of a run in this process; values are as JSON reads them back.

    Args:
        prompts, judges: those that rows may ask; None and empty if they ask no LLM.
    """
    identity: dict[str, Choice] = {
        "plumbline": VERSION,
        **option_identity(options),
        "threshold": settings.threshold if options.threshold is None else options.threshold,
        "deadline": options.deadline_seconds,
        "row_deadline_seconds": settings.row_deadline_seconds,
        "calibration": _digest("\n".join(entry.model_dump_json() for entry in calibrations.entries)),
        **{name: getattr(settings, name) for name in _SETTINGS},
    }
    if prompts is not None and judges:
        used = (*prompts.verify, *prompts.check, *(prompts.metrics if options.metrics else ()))
        identity |= {
            "judges known": list(judges),
            "prompts": [f"{prompt.label} {prompt.digest[:_DIGEST_CHARACTERS]}" for prompt in used],
            "llm_prices": _digest(json.dumps(settings.model_dump(mode="json")["llm_prices"], sort_keys=True)),
            **{
                name: getattr(settings, name)
                for name in ("llm_max_output_tokens", "llm_context_tokens", "llm_max_cost")
            },
        }
    return identity


def differences(before: Mapping[str, Choice], now: Mapping[str, Choice]) -> list[str]:
    """Return one line for each name whose value differs; of another version of Plumbline that alone."""
    names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
    if "plumbline" in names and before.get("plumbline") is not None and now.get("plumbline") is not None:
        names = ["plumbline"]
    found = [f"{name} was {_text(before.get(name))} and is {_text(now.get(name))}" for name in names]
    more = len(found) - _MAX_DIFFERENCES
    return [*found[:_MAX_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _text(value: Choice) -> str:
    if value is None:
        return "not given"
    return ",".join(value) if isinstance(value, list) else str(value)
