"""Results in notebooks: a block of HTML without styles of its own, and rows as a data frame of the caller's library."""

import importlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, Literal

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.schemas.result_parts import ClaimItem

FrameLibrary = Literal["pandas", "polars", "pyarrow"]
CLAIM_COLUMNS: Final = ("id", "sentence", "text", "verdict", "support", "reason", "context", "quote")
_WORD: Final = {True: "passed", False: "failed", None: "unsure"}
_SIGN: Final = {True: "✓", False: "✗", None: "?"}
_OF_NO_CLAIM: Final = "not_a_claim"


def build_frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str], library: FrameLibrary) -> Any:
    """Return a data frame, or Arrow's table, with a row for each mapping.

    Raises InvalidInput: the library is not known, or not installed.
    """
    cells = {column: [row.get(column) for row in rows] for column in columns}
    if library not in ("pandas", "polars", "pyarrow"):
        raise InvalidInput(CodedText("no_frame_of", library=library))
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise InvalidInput(CodedText("library_needed", library=library)) from None
    return module.table(cells) if library == "pyarrow" else module.DataFrame(cells)


def claim_rows(claims: Sequence[ClaimItem]) -> list[dict[str, object]]:
    return [
        {
            **claim.model_dump(include={"id", "sentence", "text", "verdict", "support", "reason"}),
            **({"context": claim.evidence[0].context, "quote": claim.evidence[0].quote} if claim.evidence else {}),
        }
        for claim in claims
    ]


def result_html(*, passed: bool | None, status: str, facts: Sequence[str], claims: Sequence[ClaimItem]) -> str:
    decision = _WORD[passed] if status == "judged" else status
    head = f"<p><b>{_SIGN[passed]} {escape(decision)}</b> {escape(' · '.join(facts))}</p>"
    shown = sorted(
        (claim for claim in claims if claim.verdict != _OF_NO_CLAIM), key=lambda claim: claim.verdict == "supported"
    )
    rows = "".join(map(_claim_html, shown))
    header = "<tr><th>verdict</th><th>claim</th><th>reason</th><th>evidence</th></tr>"
    return f"<div>{head}{f'<table>{header}{rows}</table>' if rows else ''}</div>"


def _claim_html(claim: ClaimItem) -> str:
    quotes = [f"context {each.context}: {each.quote}" for each in claim.evidence[:1] if each.quote]
    cells = (claim.verdict.replace("_", " "), claim.text, claim.reason or "", *(quotes or [""]))
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
