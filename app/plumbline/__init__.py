"""Plumbline: checks what a RAG app says against what it retrieved, and how well it retrieved.

    from plumbline import Plumbline

Importing the package loads nothing; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plumbline.client import AsyncPlumbline, Plumbline
    from plumbline.ground.version import VERSION as __version__  # noqa: N811

__all__ = ["AsyncPlumbline", "Plumbline", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncPlumbline", "Plumbline"):
        return getattr(import_module("plumbline.client"), name)
    if name == "__version__":
        return import_module("plumbline.ground.version").VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
