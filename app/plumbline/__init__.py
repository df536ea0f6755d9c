"""Plumbline: checks what a RAG app says against what it retrieved, and how well it retrieved.

    import plumbline
    plumbline.evaluate(contexts=["The tower is 41 m high."], answer="It is 65 m high.").passed
    plumbline.retrieval.evaluate({"q1": {"d1": 1}}, {"q1": ["d2", "d1"]}, "ndcg@10")

Importing the package loads nothing; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plumbline import retrieval
    from plumbline.client import AsyncPlumbline, Plumbline
    from plumbline.ground.version import VERSION as __version__  # noqa: N811
    from plumbline.integrations.checker import evaluate

__all__ = ["AsyncPlumbline", "Plumbline", "__version__", "evaluate", "retrieval"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncPlumbline", "Plumbline"):
        return getattr(import_module("plumbline.client"), name)
    if name == "evaluate":
        return import_module("plumbline.integrations.checker").evaluate
    if name == "retrieval":
        return import_module("plumbline.retrieval")
    if name == "__version__":
        return import_module("plumbline.ground.version").VERSION
    moved = f"; it is plumbline.retrieval.{name} since 0.3" if name in ("compare", "fuse") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{moved}")
