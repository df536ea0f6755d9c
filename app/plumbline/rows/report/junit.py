"""The report as JUnit XML: each gate is a test."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from plumbline.rows.report.building import Report
from plumbline.rows.report.texts import one_line, xml_text

_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 500


class _Case(NamedTuple):
    """A JUnit test case; `kind` is None if it passed."""

    group: str
    name: str
    kind: Literal["failure", "skipped"] | None = None
    message: str = ""
    detail: str = ""


def junit_xml(report: Report, *, suite: str = "plumbline") -> bytes:
    """Return one suite in UTF-8, in the format that Jenkins, GitLab and GitHub Actions read.

    Tests are each gate, a failure if it failed, so that the suite fails as the command does; one skipped test for each
    kind of rows that no gate is about; one test for all rows that passed.
    """
    cases = [
        _Case("gates", gate.name, None if gate.passed else "failure", f"wanted {gate.wanted}, found {gate.got}")
        for gate in report.summary.gates
    ]
    cases += _row_cases(report)
    kinds = [case.kind for case in cases]
    root = Element("testsuites")
    counts = {"tests": len(cases), "failures": kinds.count("failure"), "errors": 0, "skipped": kinds.count("skipped")}
    attributes = {"name": _clean(suite, _LONGEST_NAME), **{name: str(count) for name, count in counts.items()}}
    # Nothing is timed; some readers need the attribute.
    test_suite = SubElement(root, "testsuite", {**attributes, "time": "0"})
    for case in cases:
        attributes = {"classname": f"plumbline.{case.group}", "name": _clean(case.name, _LONGEST_NAME), "time": "0"}
        element = SubElement(test_suite, "testcase", attributes)
        if case.kind is not None:
            outcome = SubElement(element, case.kind, {"message": _clean(case.message, _LONGEST_MESSAGE)})
            if case.kind == "failure":
                outcome.set("type", "gate")
            outcome.text = xml_text(case.detail)
    indent(root)
    body: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def _row_cases(report: Report) -> Iterator[_Case]:
    summary = report.summary
    statuses = summary.statuses
    counts = {
        "that did not pass": statuses.judged - summary.passed - summary.unsure,
        "of which their tier is unsure": summary.unsure,
        "with an error": statuses.error,
        "that no tier could judge": statuses.not_judged,
        "abstained": statuses.abstained,
        "empty": statuses.empty_answer,
    }
    for words, count in counts.items():
        if count:
            yield _Case("rows", f"{count} rows {words}", "skipped", f"{count} rows, not listed")
    if summary.bad_lines:
        problems = "\n".join(f"line {bad.line}: {bad.problem}" for bad in summary.first_bad_lines)
        message = f"{summary.bad_lines} lines are no rows of results"
        yield _Case("rows", "lines that were skipped", "skipped", message, problems)
    if summary.passed:
        yield _Case("rows", f"rows that passed: {summary.passed}")


def _clean(text: str, most: int) -> str:
    return one_line(xml_text(text), most=most)
