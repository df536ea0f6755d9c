"""The report as JUnit XML: each gate is a test."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from plumbline.rows.report.building import Report
from plumbline.rows.report.gates import GateOutcome
from plumbline.rows.report.texts import one_line, xml_text

_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 500

_COUNTED_AS: Final = {"failure": "failures", "error": "errors", "skipped": "skipped"}


class _Case(NamedTuple):
    """A JUnit test case; `kind` is None if it passed."""

    group: str
    name: str
    kind: Literal["failure", "skipped"] | None = None
    message: str = ""


def junit_xml(report: Report, gates: Sequence[GateOutcome] = (), *, suite: str = "plumbline") -> bytes:
    """Return one suite in UTF-8, in the format that Jenkins, GitLab and GitHub Actions read.

    Tests are each gate, a failure if it failed, so that the suite fails as the command does; one skipped test for each
    kind of rows that no gate is about; one test for all rows that passed.
    """
    cases = [*_gate_cases(gates), *_row_cases(report)]
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
            if case.kind == "failure":
                outcome.set("type", "gate")
    indent(root)
    body: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def _gate_cases(gates: Sequence[GateOutcome]) -> Iterator[_Case]:
    for gate in gates:
        message = f"wanted {gate.wanted}, found {gate.got}"
        yield _Case("gates", gate.name) if gate.passed else _Case("gates", gate.name, "failure", message)


def _row_cases(report: Report) -> Iterator[_Case]:
    """Yield one test for all rows of a kind."""
    summary = report.summary
    statuses = summary.statuses
    failed = sum(tier.scores.passed_share.rows for tier in summary.tiers) - summary.passed
    for words, count in (
        ("that did not pass", failed),
        ("with an error", statuses.error),
        ("that no tier could judge", statuses.not_judged),
        ("abstained", statuses.abstained),
        ("empty", statuses.empty_answer),
    ):
        if count > 0:
            yield _Case("rows", f"{count} rows {words}", "skipped", message=f"{count} rows, not listed")
    if summary.bad_lines:
        yield _Case("rows", "lines that were skipped", "skipped", message=f"{summary.bad_lines} lines are no results")
    if summary.passed:
        yield _Case("rows", f"rows that passed: {summary.passed}")


def _clean(text: str, most: int) -> str:
    return one_line(xml_text(text), most=most)
