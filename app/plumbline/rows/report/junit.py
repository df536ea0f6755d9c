"""The report as JUnit XML: each gate is a test, and on request each row that needs attention."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from plumbline.rows.report.building import Report
from plumbline.rows.report.judged_answer import UNSUPPORTED
from plumbline.rows.report.markdown import worst_claim
from plumbline.rows.report.result_lines import RowResult
from plumbline.rows.report.shown_rows import KeptRow
from plumbline.rows.report.texts import one_line, xml_text

_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 500

Kind = Literal["failure", "error", "skipped"]
_COUNTED_AS: Final[dict[Kind, str]] = {"failure": "failures", "error": "errors", "skipped": "skipped"}


class _Case(NamedTuple):
    """A JUnit test case; `kind` is None if it passed, `detail` is the failure's body."""

    group: str
    name: str
    kind: Kind | None = None
    type: str = ""
    message: str = ""
    detail: str = ""


def junit_xml(report: Report, *, suite: str = "plumbline", with_rows: bool = False) -> bytes:
    """Return one suite in UTF-8, in the format that Jenkins, GitLab and GitHub Actions read.

    Tests are each gate, a failure if it failed, so that the suite fails as the command does; one skipped test for each
    kind of rows that no gate is about; one test for all rows that passed.

    Args:
        with_rows: add the rows: one that did not pass, or that its tier is unsure of, is a failure; one with an error,
            or judged by no tier, an error; one that abstained or is empty is skipped. Rows that the report does not
            keep are one test for each kind.
    """
    cases = [*_gate_cases(report)]
    if with_rows:
        cases += [*_row_cases(report), *_counted_cases(report, report.worst, report.unscored)]
    else:
        cases += [case._replace(kind="skipped") for case in _counted_cases(report)]
    if report.summary.passed:
        cases.append(_Case("rows", f"rows that passed: {report.summary.passed}"))
    root = Element("testsuites")
    test_suite = SubElement(root, "testsuite", {"name": _clean(suite, _LONGEST_NAME), "tests": str(len(cases))})
    for kind, attribute in _COUNTED_AS.items():
        test_suite.set(attribute, str(sum(case.kind == kind for case in cases)))
    # Nothing is timed; some readers need the attribute.
    test_suite.set("time", "0")
    for case in cases:
        attributes = {"classname": f"plumbline.{case.group}", "name": _clean(case.name, _LONGEST_NAME), "time": "0"}
        element = SubElement(test_suite, "testcase", attributes)
        if case.kind is not None:
            outcome = SubElement(element, case.kind, {"message": _clean(case.message, _LONGEST_MESSAGE)})
            if case.kind != "skipped":
                outcome.set("type", case.type)
                outcome.text = xml_text(case.detail)
    indent(root)
    body: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def _gate_cases(report: Report) -> Iterator[_Case]:
    for gate in report.summary.gates:
        message = f"wanted {gate.wanted}, found {gate.got}"
        yield _Case("gates", gate.name) if gate.passed else _Case("gates", gate.name, "failure", "gate", message)


def _row_cases(report: Report) -> Iterator[_Case]:
    for kept in (*report.worst, *report.unscored):
        row = kept.row
        name = f"row {row.row}: {row.custom_id if row.custom_id is not None else '(no name)'}"
        if row.error is not None:
            faults = "\n".join(f"{each.pointer} {each.detail}" for each in row.error.errors)
            yield _Case("rows", name, "error", "row_error", f"{row.error.title}: {row.error.detail}", faults)
        elif row.result is not None and row.result.status != "judged":
            yield _unscored_case(name, row.result)
        elif row.result is not None and row.result.passed is not True:
            yield _failed_case(name, kept, row.result)


def _unscored_case(name: str, result: RowResult) -> _Case:
    if result.status != "not_judged":
        return _Case("rows", name, "skipped", message=result.status)
    tried = "; ".join(f"{each.tier}: {each.reason or each.outcome}" for each in result.trace.attempts)
    return _Case("rows", name, "error", "not_judged", f"no tier could judge it ({tried or 'none was asked'})")


def _failed_case(name: str, kept: KeptRow, result: RowResult) -> _Case:
    claim = worst_claim(kept)
    why = f"faithfulness {result.faithfulness or 0.0:.3f}"
    threshold = result.decision and result.decision.threshold
    if threshold is None:
        why = f"{result.scores.unsupported_claims or 0} claims without full support, {why}"
    else:
        why += f" is below {threshold:g}"
    why += f", tier {result.tier or 'none'}"
    if result.passed is None:
        why = f"the tier is unsure, {why}"
    message = why if claim is None else f"{why}; {claim.verdict}: {claim.text}"
    claims = [f"{each.verdict}: {each.text}" for each in result.claims if each.verdict in UNSUPPORTED]
    kind = "unsure" if result.passed is None else "not_passed"
    return _Case("rows", name, "failure", kind, message, "\n".join(claims))


def _counted_cases(report: Report, worst: Sequence[KeptRow] = (), unscored: Sequence[KeptRow] = ()) -> Iterator[_Case]:
    """Yield one test for all rows of a kind beyond those that are listed."""
    summary = report.summary
    statuses = [kept.row.status for kept in unscored]
    listed = [kept.row.result.passed for kept in worst if kept.row.result]
    failed = summary.statuses.judged - summary.passed - summary.unsure
    further = "further " if worst or unscored else ""
    kinds: list[tuple[str, Kind, str, int]] = [
        ("that did not pass", "failure", "not_passed", failed - listed.count(False)),
        ("of which their tier is unsure", "failure", "unsure", summary.unsure - listed.count(None)),
        ("with an error", "error", "row_error", summary.statuses.error - statuses.count("error")),
        ("that no tier could judge", "error", "not_judged", summary.statuses.not_judged - statuses.count("not_judged")),
        ("abstained", "skipped", "", summary.statuses.abstained - statuses.count("abstained")),
        ("empty", "skipped", "", summary.statuses.empty_answer - statuses.count("empty_answer")),
    ]
    for words, kind, kind_type, count in kinds:
        if count > 0:
            yield _Case("rows", f"{count} {further}rows {words}", kind, kind_type, f"{count} rows, not listed")
    if summary.bad_lines:
        problems = "\n".join(f"line {bad.line}: {bad.problem}" for bad in summary.first_bad_lines)
        message = f"{summary.bad_lines} lines are no rows of results"
        yield _Case("rows", "lines that were skipped", "error", "bad_lines", message, problems)


def _clean(text: str, most: int) -> str:
    return one_line(xml_text(text), most=most)
