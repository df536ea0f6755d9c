"""The code that docs/how-to/evaluators.md gives for each framework, as a program."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIDDLEWARE = ROOT / "examples" / "langchain_middleware.py"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipe(title: str, page: str = "evaluators.md", *, has_use: bool = True) -> str:
    """Return the opening lines of the page and the block under a title.

    Args:
        has_use: False leaves out the last statement, which uses the adapter on objects that a reader has.
    """
    text = (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    opening, block = _BLOCK.search(text), _BLOCK.search(text, text.index(f"\n## {title}\n"))
    assert opening is not None
    assert block is not None
    tree = ast.parse(opening[1] + block[1])
    return ast.unparse(tree if has_use else ast.Module(tree.body[:-1], []))
