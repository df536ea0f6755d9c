"""`passed: null` of a judged row, rule `unsure`: every output names it, and none takes it for a pass or a failure."""

import json
import re
from xml.etree import ElementTree as ET

from plumbline.integrations.span_events import evaluation_attributes
from plumbline.integrations.trace_scores import langfuse_score, phoenix_annotation
from plumbline.rows.records.result_table import flat_result
from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import markdown_summary
from plumbline.rows.report.page import render_html
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.explanation import decision_word, explain, is_blocked, summarize
from plumbline.service.api.compat import litellm_answer, promptfoo_answer
from tests.making.result_rows import build_report, scored_line, unsure_line

ROW = json.loads(unsure_line("u", 0.5))
RESULT = EvaluationResult.model_validate(ROW["result"])


def test_words_for_people_and_tools_say_unsure() -> None:
    assert explain(RESULT).startswith("unsure: the tier cannot tell if the answer is faithful, a judge model can (")
    assert summarize(RESULT)["passed"] is None
    assert phoenix_annotation("s", RESULT)["result"]["label"] == "unsure"
    assert langfuse_score("t", RESULT)["metadata"]["passed"] is None
    assert evaluation_attributes(RESULT)["gen_ai.evaluation.score.label"] == "unsure"
    assert decision_word(RESULT.model_copy(update={"status": "abstained"}), "yes", "no") == "abstained"


def test_a_guard_stops_it_unless_its_user_allows_it() -> None:
    allowed = {"additional_provider_specific_params": {"unsure": "allow"}}

    assert litellm_answer(RESULT, "en", {})["action"] == "BLOCKED"
    assert litellm_answer(RESULT, "en", {})["blocked_reason"].startswith("unsure: ")
    assert litellm_answer(RESULT, "en", allowed) == {"action": "NONE"}
    assert litellm_answer(RESULT.model_copy(update={"passed": False}), "en", allowed)["action"] == "BLOCKED"
    assert promptfoo_answer(RESULT, "en", {})["pass"] is False


def test_a_guard_stops_what_no_tier_judged_and_lets_an_answer_through_that_asserts_nothing() -> None:
    found = {
        status: is_blocked(RESULT.model_copy(update={"status": status}), allow_unsure=True)
        for status in ("not_judged", "abstained", "empty_answer")
    }

    assert found == {"not_judged": True, "abstained": False, "empty_answer": False}


def test_a_table_leaves_the_decision_empty_and_names_the_rule() -> None:
    flat = flat_result(ROW)

    assert (flat["status"], flat["passed"], flat["passed_by"], flat["faithfulness"]) == ("judged", None, "unsure", 0.5)


def test_reports_mark_the_row_as_neither_passed_nor_failed() -> None:
    report = build_report([unsure_line("u", 0.5), unsure_line("v", 0.6, row=1), scored_line("p", 0.9, tier="lexical")])

    page = render_html(report)
    (brief,) = ET.fromstring(junit_xml(report))  # noqa: S314

    assert re.findall(r'data-passed="(\w+)"', page) == ["unsure", "unsure", "yes"]
    assert "Rule for 2 rows: none; their tier is unsure" in page
    assert next(case.attrib["name"] for case in brief) == "2 rows of which their tier is unsure"
    assert "| 0.500 | ❔ unsure |" in markdown_summary(report)
    assert "· unsure: 2 ·" in markdown_summary(report)
