"""The fixed words of the lab's page, by language."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from plumbline.rows.report.texts import load_words

PageLanguage = Literal["en", "zh"]
LANGUAGES: Final[tuple[PageLanguage, ...]] = ("en", "zh")
_PARTS: Final = Path(__file__).parent / "page_parts"


def words_in(language: PageLanguage) -> Mapping[str, str]:
    """Return the words of a language, by name."""
    return load_words(language, _PARTS)
