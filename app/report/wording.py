"""The fixed words of the report, by language."""

from collections.abc import Mapping
from typing import Final

from app.report.chinese import CHINESE
from app.report.english import ENGLISH
from app.schemas.report import ReportLanguage

WORDS: Final[Mapping[ReportLanguage, Mapping[str, str]]] = {"en": ENGLISH, "zh": CHINESE}


def words_in(language: ReportLanguage) -> Mapping[str, str]:
    """The words of a language, by name."""
    return WORDS[language]
