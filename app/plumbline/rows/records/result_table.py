"""Results as flat rows of a table: their columns, and their cells in CSV and TSV."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final, Literal

from plumbline.ground.printed_lists import guard_formula
from plumbline.schemas.result_parts import NO_USAGE, VerdictCounts
from plumbline.schemas.result_upgrade import upgrade_result

ColumnType = Literal["text", "number", "whole", "truth", "texts"]

# Columns in their order; scores are named as on the wire, `null` where a number is not known. `metrics`: JSON of those
# that have no column of their own: criteria, and those with a depth.
RESULT_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "custom_id": "text", "row": "whole", "status": "text", "tier": "text", "passed": "truth", "passed_by": "text",
    "faithfulness": "number", "faithfulness_strict": "number", "lowest_support": "number",
    "unsupported_claims": "whole", "hallucination_rate": "number", "contradiction_rate": "number",
    "unsupported_rate": "number", "context_utilization": "number", "contexts_used_share": "number",
    "citation_recall": "number", "citation_precision": "number", "answer_relevance": "number",
    "context_relevance": "number", "context_precision": "number", "context_recall": "number", "correctness": "number",
    "noise_sensitivity": "number", "token_f1": "number", "exact_match": "number", "bleu": "number", "chrf": "number",
    "gleu": "number", "token_set_f1": "number", "metrics": "text", "threshold": "number", "confidence": "number",
    "supported": "whole", "partial": "whole", "contradicted": "whole", "not_mentioned": "whole",
    "not_a_claim": "whole", "model": "text", "prompt": "text", "calls": "whole", "prompt_tokens": "whole",
    "completion_tokens": "whole", "cost": "number", "flags": "texts", "warnings": "texts", "error": "text",
}  # fmt: skip
# Objects of a result whose fields become columns of their own
_OPENED: Final = ("decision", "scores", "counts", "judge", "usage")
# Parts that a result leaves out where they count nothing
_LEFT_OUT: Final = {
    "counts": VerdictCounts().model_dump(),
    "usage": NO_USAGE.model_dump(),
    "flags": [],
    "warnings": [],
}
_PROBLEM_TEXTS: Final = ("detail", "title", "message", "type")
DELIMITER_BY_FORM: Final = {"csv": ",", "tsv": "\t"}
_NEEDS_QUOTES: Final = re.compile('["\t\r\n,]|^\\s|\\s$')


def flat_result(result: Mapping[str, object]) -> dict[str, object]:
    """Return one value for each of `RESULT_COLUMNS` of an answer or a row; None if it has none, or a wrong one."""
    nested = result.get("result")
    given = {name: value for name, value in result.items() if value is not None}
    fields = {**upgrade_result(nested), **given} if isinstance(nested, Mapping) else dict(upgrade_result(result))
    if isinstance(trace := fields.get("trace"), Mapping):
        fields = {**_LEFT_OUT, **trace, **fields}
    for name in _OPENED:
        opened = fields.get(name)
        if isinstance(opened, Mapping):
            fields = {**opened, **fields}
    if isinstance(metrics := fields.get("metrics"), Mapping):
        values = {name: each.get("value") for name, each in metrics.items() if isinstance(each, Mapping)}
        others = {name: value for name, value in values.items() if name not in RESULT_COLUMNS and value is not None}
        fields = {**values, **fields, "metrics": json.dumps(others, ensure_ascii=False) if others else None}
    if isinstance(warnings := fields.get("warnings"), list):
        fields["warnings"] = [each.get("text") if isinstance(each, Mapping) else each for each in warnings]
    fields["passed_by"] = fields.get("rule")
    # The judge's calls are a part of all calls
    if isinstance(usage := fields.get("usage"), Mapping):
        fields["calls"] = usage.get("calls")
    if fields.get("custom_id") is None:
        fields["custom_id"] = fields.get("id")
    error = fields.get("error")
    if isinstance(error, Mapping):
        fields["error"] = next((error[name] for name in _PROBLEM_TEXTS if isinstance(error.get(name), str)), "an error")
    return {name: _of_type(fields.get(name), kind) for name, kind in RESULT_COLUMNS.items()}


def _of_type(value: object, kind: ColumnType) -> object:
    match value:
        case bool():
            return value if kind == "truth" else None
        case int() | float() if kind == "number":
            return float(value)
        case int() if kind == "whole":
            return value
        case str():
            return value if kind == "text" else None
        case Sequence() if kind == "texts":
            return [str(item) for item in value]
    return None


def format_cell(value: object) -> str:
    """Return a value as a cell: empty for None, lists as JSON, an apostrophe before what a spreadsheet would run."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if value - value == 0 else ""  # NaN and infinity are no numbers
    if isinstance(value, Sequence) and not isinstance(value, str):
        return json.dumps(list(value), ensure_ascii=False) if value else ""
    return guard_formula(str(value))


def table_line(cells: Sequence[str], delimiter: str) -> str:
    """Return one row, quoted as in RFC 4180, ending with LF."""
    quoted = ('"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell for cell in cells)
    return delimiter.join(quoted) + "\n"


class ResultTable:
    """A table of results in CSV or TSV, written row by row."""

    def __init__(self, file: BinaryIO, delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self._write_cells(list(RESULT_COLUMNS))

    def write(self, result: Mapping[str, object]) -> None:
        """Write one result: plain mappings, lists, texts, numbers, booleans and None; NaN becomes null."""
        self._write_cells([format_cell(value) for value in flat_result(result).values()])

    def _write_cells(self, cells: list[str]) -> None:
        self._file.write(table_line(cells, self._delimiter).encode("utf-8"))
