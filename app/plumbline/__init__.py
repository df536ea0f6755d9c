"""Plumbline: checks what a RAG app says against what it retrieved, and how well it retrieved.

    from plumbline import Plumbline
    plumbline.evaluate({"q1": {"d1": 1}}, {"q1": ["d2", "d1"]}, "ndcg@10")

Importing the package loads nothing; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plumbline.client import AsyncPlumbline, Plumbline
    from plumbline.ground.version import VERSION as __version__  # noqa: N811
    from plumbline.retrieval.api import compare, evaluate, fuse

__all__ = ["AsyncPlumbline", "Plumbline", "__version__", "compare", "evaluate", "fuse"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncPlumbline", "Plumbline"):
        return getattr(import_module("plumbline.client"), name)
    if name in ("compare", "evaluate", "fuse"):
        try:
            return getattr(import_module("plumbline.retrieval.api"), name)
        except ModuleNotFoundError as error:
            if error.name not in ("numpy", "scipy"):
                raise
            needed = f"plumbline.{name} needs {error.name}: pip install 'plumbline-rag[retrieval]'"
            raise ModuleNotFoundError(needed, name=error.name) from None
    if name == "__version__":
        return import_module("plumbline.ground.version").VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
