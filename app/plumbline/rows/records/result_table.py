"""Results as flat rows of a table, and their cells in CSV and TSV."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

ColumnType = Literal["text", "number", "whole", "truth", "texts"]

# In this order; scores as the wire names them, `null` where a number is not known.
RESULT_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "custom_id": "text",
    "row": "whole",
    "status": "text",
    "tier": "text",
    "passed": "truth",
    "faithfulness": "number",
    "faithfulness_strict": "number",
    "hallucination_rate": "number",
    "contradiction_rate": "number",
    "unsupported_rate": "number",
    "context_utilization": "number",
    "contexts_used_share": "number",
    "token_f1": "number",
    "exact_match": "number",
    "threshold": "number",
    "confidence": "number",
    "supported": "whole",
    "partial": "whole",
    "contradicted": "whole",
    "not_mentioned": "whole",
    "not_a_claim": "whole",
    "model": "text",
    "prompt": "text",
    "calls": "whole",
    "prompt_tokens": "whole",
    "completion_tokens": "whole",
    "cost": "number",
    "flags": "texts",
    "warnings": "texts",
    "error": "text",
}
# Objects of a result whose fields become columns of their own
_OPENED: Final = ("counts", "judge", "usage")
_SHOWN_OF_PROBLEM: Final = ("detail", "title", "message", "type")


def flat_result(result: Mapping[str, object]) -> dict[str, object]:
    """One value for each of `RESULT_COLUMNS`; None where the result has none.

    A result is what `POST /v1/evaluations` answers, at the top or under `result`, with `custom_id` (or `id`), `row` and
    `error`: a text, or a problem object, of which the detail is kept. A value of another type than its column's is
    left out rather than guessed at.
    """
    inner = result.get("result")
    fields = {**inner, **_given(result)} if isinstance(inner, Mapping) else dict(result)
    for name in _OPENED:
        opened = fields.get(name)
        if isinstance(opened, Mapping):
            fields = {**opened, **fields}
    # The judge's calls are a part of all calls
    if isinstance(usage := fields.get("usage"), Mapping):
        fields["calls"] = usage.get("calls")
    if fields.get("custom_id") is None:
        fields["custom_id"] = fields.get("id")
    fields["error"] = _error_text(fields.get("error"))
    return {name: _of_type(fields.get(name), kind) for name, kind in RESULT_COLUMNS.items()}


def _given(result: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in result.items() if value is not None}


def _error_text(error: object) -> object:
    if not isinstance(error, Mapping):
        return error
    return next((error[name] for name in _SHOWN_OF_PROBLEM if isinstance(error.get(name), str)), "an error")


def _of_type(value: object, kind: ColumnType) -> object:
    match kind:
        case "truth":
            fits = isinstance(value, bool)
        case "whole":
            fits = isinstance(value, int) and not isinstance(value, bool)
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "text":
            fits = isinstance(value, str)
        case "texts":
            fits = isinstance(value, Sequence) and not isinstance(value, str)
    if not fits:
        return None
    if kind == "texts":
        return [str(item) for item in value] if isinstance(value, Sequence) else None
    return float(value) if kind == "number" and isinstance(value, int) else value


_RISKY: Final = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_QUOTED_FOR: Final = re.compile('["\t\r\n,]|^\\s|\\s$')


def safe_text(text: str) -> str:
    """The text as a cell holds it."""
    return f"'{text}" if _RISKY.match(text) else text


def original_text(cell: str) -> str:
    """The text that `safe_text` made a cell of."""
    return cell[1:] if cell.startswith("'") and _RISKY.match(cell, 1) else cell


def cell_of(value: object) -> str:
    """A value as a cell: empty for None, `true`/`false`, numbers so that they read back equal, lists as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if value - value == 0 else ""  # NaN and infinity are no numbers
    if isinstance(value, Sequence) and not isinstance(value, str):
        return json.dumps(list(value), ensure_ascii=False) if value else ""
    return safe_text(str(value))


def table_line(cells: Sequence[str], delimiter: str) -> str:
    """One row, quoted as RFC 4180 has it, with LF at its end."""
    return delimiter.join(_quoted(cell) for cell in cells) + "\n"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _QUOTED_FOR.search(cell) else cell
