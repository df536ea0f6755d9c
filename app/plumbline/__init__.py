"""Plumbline: checks what a RAG app says against what it retrieved, and how well it retrieved.

    from plumbline import Plumbline

Importing the package loads nothing; the client is loaded when one of its two classes is named.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plumbline.client import AsyncPlumbline, Plumbline

__all__ = ["AsyncPlumbline", "Plumbline", "__version__"]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name in ("AsyncPlumbline", "Plumbline"):
        return getattr(import_module("plumbline.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
