"""The fixed words of the lab's page, by language."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

PageLanguage = Literal["en", "zh"]
LANGUAGES: Final[tuple[PageLanguage, ...]] = ("en", "zh")


@functools.cache
def words_in(language: PageLanguage) -> Mapping[str, str]:
    """The words of a language, by name."""
    path = Path(__file__).parent / "page_parts" / f"words.{language}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
