"""The report as Markdown and as JUnit XML."""

import re
from functools import cache
from xml.etree import ElementTree as ET

import pytest

from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import escaped, markdown_summary
from plumbline.schemas.report import GateOutcome
from tests.making.cases import load_cases
from tests.making.result_rows import build_report, error_line, result_line, scored_line, with_gates
from tests.reading.report_html import HOSTILE, hostile_report

PASSED = GateOutcome(name="faithfulness", wanted="at least 0.8", got="0.9", passed=True)
FAILED = GateOutcome(name="degraded", wanted="at most 0.02", got="0.5", passed=False)
LINES = [
    scored_line("low", 0.25, row=0, verdicts=("supported", "contradicted")),
    scored_line("fine", 0.9, row=1),
    result_line("quiet", row=2, status="abstained"),
    result_line("blank", row=3, status="empty_answer"),
    result_line("down", row=4, status="not_judged"),
    error_line(None, row=5),
]


def suite_of(xml: bytes) -> ET.Element:
    root = ET.fromstring(xml)  # noqa: S314
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    return suite


def kinds_of(suite: ET.Element) -> dict[str, str]:
    return {case.attrib["name"]: next((child.tag for child in case), "passed") for case in suite}


def test_gates_are_tests_and_so_is_each_kind_of_rows() -> None:
    suite = suite_of(junit_xml(with_gates(build_report([*LINES, b"{"]), PASSED, FAILED)))

    assert kinds_of(suite)["lines that were skipped"] == "skipped"
    assert suite.attrib == {
        "name": "plumbline",
        "tests": "9",
        "failures": "1",
        "errors": "0",
        "skipped": "6",
        "time": "0",
    }


def test_only_a_gate_that_failed_fails_the_suite() -> None:
    rows = {
        "1 rows that did not pass": "skipped",
        "1 rows with an error": "skipped",
        "1 rows that no tier could judge": "skipped",
        "1 rows abstained": "skipped",
        "1 rows empty": "skipped",
        "rows that passed: 1": "passed",
    }

    passing, failing = (suite_of(junit_xml(with_gates(build_report(LINES), gate))) for gate in (PASSED, FAILED))

    assert kinds_of(passing) == {"faithfulness": "passed", **rows}
    assert kinds_of(failing) == {"degraded": "failure", **rows}
    assert (passing.attrib["failures"], passing.attrib["errors"]) == ("0", "0")
    assert (failing.attrib["failures"], failing.attrib["errors"]) == ("1", "0")


def test_markdown_has_gates_scores_counts_and_the_worst_rows() -> None:
    report = with_gates(build_report(LINES, baseline_lines=LINES), PASSED, FAILED)

    text = markdown_summary(report, rows=1)

    assert "\n\n**❌ A gate failed**\n" in text
    assert "| faithfulness | at least 0.8 | 0.9 | ✅ passed |" in text
    assert "| degraded | at most 0.02 | 0.5 | ❌ failed |" in text
    assert "| LLM judge | 2 | 0.575 [0.206, 0.876] | 0.425 [0.124, 0.794] |" in text
    assert "| LLM judge | +0.000 | 1.000 | 2 | 0 | 2 | 0 |" in text
    assert "| 0.250 | ❌ | LLM judge | low | Contradicted | The bridge was opened in 1931. |" in text
    assert "fine" not in text


def test_markdown_names_no_claim_where_there_is_none() -> None:
    text = markdown_summary(build_report([scored_line("a", 0.0, verdicts=("not_a_claim",), text="Sure!")]))

    assert "Sure" not in text


def test_markdown_of_tiers_says_that_they_do_not_compare() -> None:
    text = markdown_summary(build_report([scored_line("a", 1.0), scored_line("b", 0.5, tier="lexical")]))

    assert "All tiers (mixed scales)" in text
    assert "never across" in text


def test_markdown_speaks_chinese() -> None:
    assert "忠实度" in markdown_summary(build_report(LINES), language="zh")


def test_markdown_without_a_judged_row_says_so() -> None:
    assert "No row was judged." in markdown_summary(build_report([]))


@pytest.mark.parametrize(("text", "shown"), load_cases("report_texts", "markdown"))
def test_text_of_others_has_no_meaning_in_markdown(text: str, shown: str) -> None:
    assert escaped(text) == shown


@cache
def _hostile_markdown(text: str) -> str:
    return markdown_summary(hostile_report(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_table(text: str) -> None:
    changed, harmless = _hostile_markdown(text), _hostile_markdown("harmless")

    assert [line.count("|") for line in changed.split("\n")] == [line.count("|") for line in harmless.split("\n")]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element_and_no_link_in_markdown(text: str) -> None:
    assert re.findall(r"[<>`@]|\]\(|://", _hostile_markdown(text)) == []
