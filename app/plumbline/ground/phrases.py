"""Phrases and words by language: TOML files of the package, which people review without reading code."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = Path(__file__).parents[1]
_PART: Final = re.compile(r"\{([a-z_]+)\}")


@cache
def load_data(name: str) -> dict[str, Any]:
    """Return the content of the file `<name>.toml` in the package, such as `judging/text/negation`."""
    return tomllib.loads((_PACKAGE / f"{name}.toml").read_text(encoding="utf-8"))


class Phrases:
    """Words and patterns of one file, each by its `table.key`.

    A list holds the alternatives of a pattern; a text is one pattern, or words with blanks between them. In a pattern
    `{name}` stands for that of `parts.name`; `borrowed` is another file whose parts count, too.
    """

    def __init__(self, name: str, *, borrowed: str = "") -> None:
        self._tables = load_data(name)
        shared = load_data(borrowed)["parts"] if borrowed else {}
        self._parts = {**shared, **self._tables.get("parts", {})}

    def read(self, key: str) -> Any:
        """Return the value of a `table.key`, or of a key outside of tables, as it stands in the file."""
        table, _, name = key.rpartition(".")
        return {"parts": self._parts, "": self._tables}.get(table, self._tables.get(table, {}))[name]

    def words(self, *keys: str) -> frozenset[str]:
        return frozenset(word for key in keys for word in self.read(key).split())

    def pattern(self, *keys: str) -> str:
        """Return the pattern of all alternatives of these keys, in their order."""
        return "|".join(self.patterns(*keys))

    def patterns(self, *keys: str) -> list[str]:
        """Return the alternatives of these keys, a pattern each."""
        found: list[str] = []
        for key in keys:
            value = self.read(key)
            found += [value.replace("\n", "")] if isinstance(value, str) else value
        return [_PART.sub(lambda part: self.pattern(f"parts.{part[1]}"), each) for each in found]
