"""Where `plumbline score` scores: here, or by a service; and with which options."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from plumbline.cli.score.run_state import Choice
from plumbline.cli.score.scorers import ManyScorer
from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.schemas.evaluation import EvaluationOptions

if TYPE_CHECKING:
    from plumbline.cli.score.here import HerePlan


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows are scored: what results depend on there, and what scores them, one context a run."""

    choices: Mapping[str, Choice]
    scorer: Callable[[], AbstractAsyncContextManager[ManyScorer]]


def place_of(options: argparse.Namespace) -> Place:
    """The place that the options name.

    Raises:
        PlumblineError: an option or a setting is wrong.
    """
    row_options = evaluation_options(options)
    told: dict[str, Choice] = row_options.model_dump(
        exclude={"threshold", "deadline_seconds", "max_cost", "offset_unit"}
    )
    if options.url is None:
        plan = here_plan(options)
        if options.max_cost is not None:
            plan.check_prices()
        at_once = options.concurrency or plan.usual_concurrency
        return Place({**told, **plan.choices()}, partial(plan.scorer, at_once=at_once))
    from plumbline.cli.score.there import scorer_there  # noqa: PLC0415 - not where rows are scored here

    configure_logging("ERROR")
    told |= {"threshold": row_options.threshold, "deadline": row_options.deadline_seconds, "service": options.url}
    return Place(told, partial(scorer_there, options.url, row_options, in_flight=options.concurrency))


def here_plan(options: argparse.Namespace) -> "HerePlan":
    """What would score here.

    Raises:
        PlumblineError: an option or a setting is wrong.
    """
    # Seconds of import that a run against a service does not pay
    from plumbline.cli.score.here import HerePlan  # noqa: PLC0415

    settings = load_settings()
    # That a tier failed stands in each row; a line for each of a million rows helps nobody
    configure_logging(settings.log_level if "log_level" in settings.model_fields_set else "ERROR")
    return HerePlan(settings, evaluation_options(options))


def evaluation_options(options: argparse.Namespace) -> EvaluationOptions:
    """The options of every row.

    Raises:
        InvalidInput: one of them cannot be; names it as it is written.
    """
    given: dict[str, Any] = {
        "tiers": _names(options.tiers),
        "threshold": options.threshold,
        "deadline_seconds": options.deadline,
        "judges": _names(options.judges),
        "samples": options.samples,
        "escalation": options.escalation,
        "cache": "bypass" if options.no_cache else None,
    }
    try:
        return EvaluationOptions.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        option = str(first["loc"][0]).removesuffix("_seconds")
        raise InvalidInput(f"--{option}: {first['msg']}") from None


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
