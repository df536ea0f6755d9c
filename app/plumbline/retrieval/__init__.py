"""Measures of retrieval, their file formats, comparison and fusion of runs. Pure: no network, no web framework.

`evaluate`, `compare` and `fuse` take mappings, tables and paths; they are loaded, with numpy, when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plumbline.retrieval.api import compare, evaluate, fuse

__all__ = ["compare", "evaluate", "fuse"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("plumbline.retrieval.api"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "scipy"):
            raise
        needed = f"plumbline.retrieval.{name} needs {error.name}: pip install 'plumbline-rag[retrieval]'"
        raise ModuleNotFoundError(needed, name=error.name) from None
