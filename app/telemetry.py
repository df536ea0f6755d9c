"""Logs: events with fields, one line each. Never a user's text, never a key."""

import logging
import sys

import structlog

# They log requests: at INFO their URLs, at DEBUG their bodies, which hold users' texts.
_TALKATIVE = ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "sentence_transformers", "transformers", "urllib3")


def configure_logging(level: str) -> None:
    """Sends events of this level and above to standard error: JSON lines, or a readable form on a terminal."""
    is_terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=level, stream=sys.stderr, format='{"level": "%(levelname)s", "event": "%(message)s"}')
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
