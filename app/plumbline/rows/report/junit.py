"""The report as JUnit XML: each gate is a test."""

from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from plumbline.rows.report.building import Report
from plumbline.rows.report.texts import one_line, xml_text

_SUITE: Final = "plumbline"
_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 500


def junit_xml(report: Report) -> bytes:
    """Return one suite in UTF-8, in the format that Jenkins, GitLab and GitHub Actions read.

    Tests are each gate, a failure if it failed, so that the suite fails as the command does; one skipped test for each
    kind of rows that no gate is about; one test for all rows that passed.
    """
    root = Element("testsuites")
    # Nothing is timed; some readers need the attribute
    test_suite = SubElement(root, "testsuite", {"name": _SUITE, "time": "0"})
    for gate in report.summary.gates:
        case = _add_case(test_suite, "gates", gate.name)
        if not gate.passed:
            message = _clean(f"wanted {gate.wanted}, found {gate.got}", _LONGEST_MESSAGE)
            SubElement(case, "failure", {"message": message, "type": "gate"})
    for name, message, detail in _row_cases(report):
        case = _add_case(test_suite, "rows", name)
        if message:
            SubElement(case, "skipped", {"message": _clean(message, _LONGEST_MESSAGE)}).text = xml_text(detail)
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        for element in (root, test_suite):
            element.set(name, str(len(list(test_suite.iter(tag)))))
    root.set("name", _SUITE)
    indent(root)
    body: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def _add_case(suite: Element, group: str, name: str) -> Element:
    return SubElement(
        suite, "testcase", {"classname": f"{_SUITE}.{group}", "name": _clean(name, _LONGEST_NAME), "time": "0"}
    )


def _row_cases(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield name, message and detail of each kind of rows; no message where they passed."""
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
            yield f"{count} rows {words}", f"{count} rows, not listed", ""
    if summary.bad_lines:
        problems = "\n".join(f"line {bad.line}: {bad.problem}" for bad in summary.first_bad_lines)
        message = f"{summary.bad_lines} lines are no rows of results"
        yield "lines that were skipped", message, problems
    if summary.passed:
        yield f"rows that passed: {summary.passed}", "", ""


def _clean(text: str, most: int) -> str:
    return one_line(xml_text(text), most=most)
