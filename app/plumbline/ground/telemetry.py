"""Logs: events with fields, one line each. Never a user's text, never a key."""

import logging
import sys
import traceback
from collections.abc import Iterator

import structlog

# They log requests: at INFO their URLs, at DEBUG their bodies, which hold users' texts.
_TALKATIVE = (
    *("opentelemetry", "openai", "httpx", "httpx2", "httpcore", "httpcore2"),
    *("sentence_transformers", "transformers", "urllib3"),
)
_MAX_FRAMES = 30
_MAX_CAUSES = 5


def configure_logging(level: str, **fields: object) -> None:
    """Send events of this level and above to standard error: JSON lines, or a readable form on a terminal.

    What libraries log through `logging` takes the same form. `fields` are added to every event.
    """

    def add_fields(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**event, **fields}

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        *([add_fields] if fields else []),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: structlog.typing.Processor = structlog.processors.JSONRenderer(ensure_ascii=False)
    if sys.stderr.isatty():
        render = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        # One write a line: several processes may share standard error.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                render,
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


def log_failure(error: Exception, event: str, **fields: object) -> None:
    """Log an error of ours as classes and places, never its message: that may quote a text."""
    structlog.get_logger().error(
        event,
        error=_class_name(error),
        frames=_frames(error)[-_MAX_FRAMES:],
        causes=[f"{_class_name(cause)} at {(_frames(cause) or ['?'])[-1]}" for cause in _causes(error)],
        **fields,
    )


def _class_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _frames(error: BaseException) -> list[str]:
    frames = traceback.walk_tb(error.__traceback__)
    return [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_qualname}" for frame, line in frames]


def _causes(error: BaseException) -> Iterator[BaseException]:
    for _ in range(_MAX_CAUSES):
        cause = error.__cause__ or error.__context__
        if cause is None and isinstance(error, BaseExceptionGroup):
            cause = error.exceptions[0]
        if cause is None:
            return
        yield cause
        error = cause
