"""Plumbline inside other tools: each file one of them, imported when it is used, on the client or in this process."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any, Final

_PAGE: Final = "docs/how-to/evaluators.md has its few lines, to keep in your code"
_GONE: Final = {
    **dict.fromkeys(("dspy", "haystack", "langsmith", "llama_index", "mlflow"), _PAGE),
    "langchain": "examples/langchain_middleware.py has it, to keep in your code",
}


class _GoneModules(MetaPathFinder):
    """Raises for a module of 0.2 that left the package; imports look here only when there is no such file."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        package, _, name = fullname.rpartition(".")
        if package == __name__ and name in _GONE:
            raise ModuleNotFoundError(f"{fullname} is gone since 0.3: {_GONE[name]}", name=fullname)


sys.meta_path.append(_GoneModules())
