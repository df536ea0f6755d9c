"""Rows scored in this process: the parts that score, built for one run and closed behind it."""

import gc
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from plumbline import __version__
from plumbline.assembly import Plan, build, encoder_of, make_plan
from plumbline.cli.score.inline_executor import InlineExecutor
from plumbline.cli.score.run_state import Choice
from plumbline.cli.score.scorers import ScorerHere
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import Settings
from plumbline.judging.tiers.tier import SentenceEncoder, TierName
from plumbline.models.chat.endpoints import resolve_judges
from plumbline.rows.evaluation_wire import check_judge_names
from plumbline.rows.row_scorer import RowScorer
from plumbline.schemas.evaluation import EvaluationOptions

_BESIDE_ENCODER: Final = 4


class HerePlan:
    """What would score rows here, checked before a row is read.

    Raises:
        ConfigurationError, PromptError, CalibrationError: with one line that says what is wrong.
        InvalidInput: the options name a judge that there is not.
    """

    def __init__(
        self, settings: Settings, options: EvaluationOptions, *, encoder: SentenceEncoder | None = None
    ) -> None:
        # A model is loaded only where rows ask for it, before the first of them; the deadline of a service's callers
        # does not bound one's own
        update = {"warm_up": False, "deadline_seconds": options.deadline_seconds or settings.row_deadline_seconds}
        self.settings = settings.model_copy(update=update)
        self.options = options
        self.plan = make_plan(self.settings, encoder=encoder)
        check_judge_names(options, self.plan.judge_names)

    @property
    def tiers(self) -> tuple[str, ...]:
        """Those that rows ask, in order."""
        return tuple(self.options.tiers or (tier.value for tier in TierName))

    @property
    def has_judge(self) -> bool:
        """Whether an LLM is asked."""
        return TierName.LLM in self.tiers and bool(self.plan.judge_names)

    @property
    def usual_concurrency(self) -> int:
        """Rows under way at one time, unless told: many that wait for an LLM, few that want this machine alone."""
        if self.has_judge:
            return self.settings.batch_concurrency
        # The encoder has a thread of its own, and something else should be done meanwhile
        return _BESIDE_ENCODER if TierName.EMBEDDING in self.tiers else 1

    def check_prices(self) -> None:
        """That whatever may be spent has a price.

        Raises:
            ConfigurationError: a judge's model has none.
        """
        known = self.settings.llm_prices or {}
        judges = resolve_judges(self.settings).values() if self.has_judge else ()
        for model in (endpoint.model for endpoints in judges for endpoint in endpoints):
            if model not in known:
                raise ConfigurationError(f"PLUMBLINE_LLM_PRICES: has no price of {model!r}, which --max-cost needs")

    def choices(self) -> Mapping[str, Choice]:
        """What a result depends on besides its row, by name."""
        settings = self.settings
        limits = ("max_contexts", "max_context_characters", "max_answer_characters", "max_question_characters")
        made_by: dict[str, Choice] = {
            "plumbline": __version__,
            "threshold": settings.threshold if self.options.threshold is None else self.options.threshold,
            "deadline": settings.deadline_seconds,
            "calibration": _calibration_digest(self.plan),
            "embedding model": settings.embedding_model,
            "precision": settings.embedding_precision,
            "limits of a row": [str(getattr(settings, limit)) for limit in limits],
        }
        if self.has_judge:
            judges = resolve_judges(settings)
            prompts = (*self.plan.prompts.verify, *self.plan.prompts.check)
            made_by |= {
                "judges known": [f"{name}: {each.place}" for name, endpoints in judges.items() for each in endpoints],
                "prompts": [f"{prompt.label} {prompt.digest[:12]}" for prompt in prompts],
                "tokens of a reply": settings.llm_max_output_tokens,
                "cost of a row": settings.llm_max_cost,
            }
        return made_by

    @asynccontextmanager
    async def scorer(self, *, at_once: int) -> AsyncIterator[ScorerHere]:
        """What scores rows, closed with the context. A model that rows will ask for is loaded by then."""
        async with AsyncExitStack() as stack:
            plan = self.plan
            if plan.encoder is None:
                encoder = encoder_of(self.settings)
                stack.callback(encoder.close)
                plan = replace(plan, encoder=encoder)
                if TierName.EMBEDDING in self.tiers and not self.has_judge:
                    await encoder.warm_up()
            # Nobody else wants the event loop while no judge is waited for, and threads would only fight over it
            service = build(plan, stack, executor=None if self.has_judge else InlineExecutor())
            # What was loaded lives as long as the run; walking it again and again costs a tenth of the time
            gc.collect()
            gc.freeze()
            stack.callback(gc.unfreeze)
            one = RowScorer(service.scorer, self.settings, self.options, judge_names=plan.judge_names)
            yield ScorerHere(one, at_once=at_once)


def _calibration_digest(plan: Plan) -> str:
    entries = "\n".join(entry.model_dump_json() for entry in plan.calibrations.entries)
    return hashlib.sha256(entries.encode()).hexdigest()[:12]
