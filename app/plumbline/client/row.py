"""One row of a response, parsed lazily from the JSON that came."""

import json
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from plumbline.client.failures import AnswerUnreadable, check_shape, parse_model
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result
from plumbline.schemas.evaluation import EvaluationResult, FrameLibrary, build_frame
from plumbline.schemas.problem import RowProblem

if TYPE_CHECKING:
    from plumbline.schemas.report import ReportSummary

S = TypeVar("S")
_NOTHING = msgspec.Raw()


@dataclass(frozen=True)
class Row(Generic[S]):
    """A sample with its result or problem: one of `result_json` and `problem_json` is there.

    `index` counts from 0: among the samples of `evaluate_many` in the order in which they were read, of a job among the
    rows of its file. `sample` is the caller's object, None for a job. `line`: of a job's file, if the row could not
    be read.
    """

    index: int
    custom_id: str | None
    sample: S
    result_json: bytes | None = None
    problem_json: bytes | None = None
    line: int | None = None

    @cached_property
    def result(self) -> EvaluationResult | None:
        """The result, as of a single evaluation; None if there is a `problem`."""
        return None if self.result_json is None else parse_model(EvaluationResult, self.result_json)

    @cached_property
    def problem(self) -> RowProblem | None:
        """The reason that there is no result; None if there is one."""
        return None if self.problem_json is None else parse_model(RowProblem, self.problem_json)

    @cached_property
    def raw(self) -> dict[str, Any]:
        """The result or the problem as plain JSON values; cheaper than the models."""
        return cast("dict[str, Any]", json.loads(self.result_json or self.problem_json or b"{}"))

    def to_line(self, *, row: int | None = None, line: int | None = None) -> bytes:
        """Encode the row as a line of a result file (`schemas.batch`), without the line end.

        Args:
            row: its position in a file, in place of `index`.
            line: where it begins there; only in rows without a result.
        """
        place = self.index if row is None else row
        name = msgspec.json.encode(str(place) if self.custom_id is None and self.result_json else self.custom_id)
        head = b'{"custom_id":%b,"row":%d,' % (name, place)
        if self.result_json is not None:
            return b'%b"result":%b}' % (head, self.result_json)
        at = self.line if line is None else line
        return b'%b"line":%b,"error":%b}' % (head, msgspec.json.encode(at), self.problem_json or b"null")


class Rows(Iterator[Row[S]]):
    """The rows of one call, read once; `close` cancels what is in flight."""

    def __init__(self, rows: Generator[Row[S], None, None]) -> None:
        self._rows = rows
        self.close = rows.close

    def __next__(self) -> Row[S]:
        return next(self._rows)

    def to_frame(self, library: FrameLibrary = "pandas") -> Any:
        """Read the rows to their end, as `to_frame`."""
        return to_frame(self, library)

    def summarize(self, gates: Iterable[str] = ()) -> "ReportSummary":
        """Read the rows to their end, as `summarize`."""
        return summarize(self, gates)


def to_frame(rows: Iterable[Row[Any]], library: FrameLibrary = "pandas") -> Any:
    """Return rows as a data frame with the columns of a table of results: `custom_id`, `passed`, scores, `error`.

    Args:
        library: `pandas`, `polars` or `pyarrow`, which the caller has installed.

    Raises:
        InvalidInput: it is not installed.
    """
    flat = [flat_result(json.loads(each.to_line())) for each in sorted(rows, key=lambda each: each.index)]
    return build_frame(flat, list(RESULT_COLUMNS), library)


def summarize(rows: Iterable[Row[Any]], gates: Iterable[str] = ()) -> "ReportSummary":
    """Return counts, means and the outcomes of gates over rows, as of `evaluate_many` or a job.

    Args:
        gates: as `passed_share=0.9`, `llm:faithfulness=0.8`, `degraded=0.02`; besides, 95 % of the rows must be judged
            and half of these decided unless you give `judged=SHARE` and `decided=SHARE` (0 turns one off).

    Raises:
        InvalidInput: a gate is malformed.
    """
    # Parts of a second that other uses of a row do not pay
    from plumbline.rows.report.building import ReportBuilder  # noqa: PLC0415
    from plumbline.rows.report.gates import parse_gate, with_usual  # noqa: PLC0415

    builder = ReportBuilder(gates=with_usual(map(parse_gate, gates)))
    for row in rows:
        builder.add(row.to_line())
    return builder.report().summary


class WireRow(msgspec.Struct):
    """A line of an answer; of a batch with `index`, of a job with `row`; the last one of a batch has a `summary`."""

    custom_id: str | None = None
    index: int = -1
    row: int = -1
    line: int | None = None
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING
    summary: msgspec.Raw = _NOTHING

    @property
    def result_json(self) -> bytes | None:
        return bytes(self.result) or None

    @property
    def problem_json(self) -> bytes | None:
        return bytes(self.error) or None


_DECODER = msgspec.json.Decoder(WireRow)


def parse_line(line: bytes) -> WireRow:
    """Parse one line of a response; raise AnswerUnreadable if it is no row and no summary."""
    try:
        row = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise AnswerUnreadable("a line of the answer is not a row of this service") from None
    if sum(bool(bytes(part)) for part in (row.result, row.error, row.summary)) != 1:
        raise AnswerUnreadable("a line of the answer has neither a result nor an error")
    check_shape(bytes(row.result))
    return row
