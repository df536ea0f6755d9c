"""The form of a data file, by a caller's word or by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.text_lines import DataFile
from plumbline.rows.records.value_kinds import shown

FORM_BY_SUFFIX: Final[Mapping[str, str]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
FORMS: Final = tuple(dict.fromkeys(FORM_BY_SUFFIX.values()))


def row_form(path: DataFile, named: str | None = None) -> str:
    """One of `FORMS`.

    Raises:
        InvalidInput: no such form, or a suffix that says none.
    """
    if named is not None:
        if named not in FORMS:
            detail = f"there is no format {shown(named)}; expected one of {', '.join(FORMS)}"
            raise InvalidInput(detail, place=path.name)
        return named
    name = path.name.lower().removesuffix(".gz")
    form = FORM_BY_SUFFIX.get(Path(name).suffix)
    if form is None:
        known = ", ".join(FORM_BY_SUFFIX)
        raise InvalidInput(f"its suffix is none of {known} (text also with .gz); name the format", place=path.name)
    return form
