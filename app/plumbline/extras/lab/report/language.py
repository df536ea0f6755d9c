"""Language of the lab's tables, page and messages: English, or Chinese by the English text."""

from pathlib import Path
from typing import Final, Literal

from plumbline.retrieval.tables import Table
from plumbline.rows.report.texts import load_words
from plumbline.schemas import language as language_of_results

PageLanguage = Literal["en", "zh"]
PARTS: Final = Path(__file__).parent / "page_parts"


def translate(text: str, language: PageLanguage) -> str:
    """Return a warning, failure or name of a stage in this language; what is not known stays English."""
    return language_of_results.translate(text, language, PARTS / "messages.zh.toml")


def translate_headings(table: Table, language: PageLanguage) -> Table:
    """Return the table with headings for people in this language; of `faithfulness.llm` the tier stays as it is."""
    words = load_words(language, PARTS)
    split = [name.partition(".") for name in table.columns]
    return Table(tuple(words.get(f"column {known}", known) + dot + tier for known, dot, tier in split), table.rows)
