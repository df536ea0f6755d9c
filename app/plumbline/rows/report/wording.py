"""The fixed words of the report, by language."""

from collections.abc import Mapping
from typing import Final

from plumbline.rows.report.chinese import CHINESE
from plumbline.rows.report.english import ENGLISH
from plumbline.schemas.report import ReportLanguage

WORDS: Final[Mapping[ReportLanguage, Mapping[str, str]]] = {"en": ENGLISH, "zh": CHINESE}


def words_in(language: ReportLanguage) -> Mapping[str, str]:
    """The words of a language, by name."""
    return WORDS[language]
