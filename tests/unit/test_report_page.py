"""The page of a report: whole in itself, safe with any text, in two languages, readable by everybody."""

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from plumbline.judging.text.sample import Sample
from plumbline.rows.report import page as page_module
from plumbline.rows.report.gates import parse_gate, with_usual
from plumbline.rows.report.judged_answer import JudgedAnswer
from plumbline.rows.report.markdown import markdown_summary
from plumbline.rows.report.page import render_html
from plumbline.rows.report.result_lines import GRAVEST_FIRST
from plumbline.rows.report.shown_rows import KeptRow, shown_row
from plumbline.rows.report.texts import load_words, one_line, visible
from plumbline.schemas.report import METRICS, ReferenceMeans, ReportLanguage
from tests.making.cases import load_cases
from tests.making.result_rows import build_report, claim, error_line, metric, result_line, scored_line, unsure_line
from tests.reading.report_html import HOSTILE, Page, colours, contrast, hostile_page

ENGLISH, CHINESE = load_words("en"), load_words("zh")
PARTS = Path(page_module.__file__).parent / "page_parts"
CSS = "".join((PARTS / name).read_text(encoding="utf-8") for name in ("base.css", "page.css"))
LINES = [
    scored_line("first", 0.25, row=0, verdicts=("supported", "contradicted", "not_a_claim")),
    scored_line("second", 0.9, row=1, tier="lexical", flags=["degraded"], cost=None),
    result_line("third", row=2, status="not_judged"),
    error_line(None, row=3),
]


def test_the_page_is_the_same_for_the_same_report() -> None:
    made_at = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)

    first, second = (render_html(build_report(LINES), made_at=made_at) for _ in range(2))

    assert first == second
    assert "2026-11-21 09:30 UTC" in first


def test_nothing_in_the_page_is_loaded_from_elsewhere() -> None:
    page = Page(render_html(build_report(LINES, baseline_lines=LINES)))

    loading = {"src", "srcset", "data", "poster", "action", "formaction", "background", "ping", "style"}
    assert [element for element in page.elements if loading & set(element[1])] == []
    assert {attributes["href"][0] for _, attributes in page.elements if "href" in attributes} == {"#"}
    assert page.named("link") == page.named("iframe") == page.named("img") == page.named("base") == []
    assert re.findall(r"url\(|@import|https?:", CSS) == []


def test_the_policy_allows_this_style_and_this_script_alone() -> None:
    page = Page(render_html(build_report(LINES)))

    (policy,) = [meta["content"] for meta in page.named("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    directives = dict(directive.strip().split(" ", 1) for directive in policy.split(";"))
    hashes = {
        name: base64.b64encode(hashlib.sha256("".join(raw).encode()).digest()).decode()
        for name, raw in page.raw.items()
    }
    assert directives == {
        "default-src": "'none'",
        "style-src": f"'sha256-{hashes['style']}'",
        "script-src": f"'sha256-{hashes['script']}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }
    # Nothing before it could have been loaded.
    names = [name for name, _ in page.elements]
    assert names[:4] == ["html", "head", "meta", "meta"]


def test_the_script_puts_text_in_as_text() -> None:
    script = (PARTS / "page.js").read_text(encoding="utf-8")

    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|fetch|XMLHttp", script) == []
    assert "</script" not in script.lower()
    assert "<!--" not in script


@pytest.fixture(scope="module")
def harmless() -> Page:
    return Page(hostile_page("harmless"))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str, harmless: Page) -> None:
    page = Page(hostile_page(text))

    assert page.shape() == harmless.shape()
    assert page.raw == harmless.raw
    assert page.comments == []
    assert visible(text).split()[0] in page.text


def test_the_page_says_what_was_counted() -> None:
    text = Page(render_html(build_report([*LINES, b"{"]), title="Nightly")).text

    for said in (
        "Nightly",
        "4 rows",
        "LLM judge",
        "Lexical",
        "mixed scales",
        "0.250",
        "0.900",
        "line 5: not JSON: Input data was truncated",
    ):
        assert said in text, said
    assert "1 rows of unknown cost" in text
    # the interval of a mean of scores is none of a share of answers
    assert "not the share of answers that are wrong" in text


def test_a_row_says_everything_that_its_line_holds() -> None:
    text = Page(render_html(build_report(LINES[:1]))).text

    for said in ("first", "row 0", "Contradicted", "Context 3", "found there", "did not pass"):
        assert said in text, said


def test_every_verdict_is_told_by_word_and_sign_too() -> None:
    page = Page(render_html(build_report([scored_line("a", 0.5, verdicts=GRAVEST_FIRST)])))

    for verdict in GRAVEST_FIRST:
        assert ENGLISH[f"verdict_{verdict}"] in page.text
        assert {"href": f"#icon-{verdict}"} in page.named("use")


def answer_of(kept: KeptRow, sample: Sample | None = None) -> JudgedAnswer:
    shown = shown_row(kept, 0, sample)
    assert shown.answer is not None
    return shown.answer


def test_a_sentence_has_the_gravest_verdict_of_its_claims() -> None:
    text = "Built in 1931 in Rome."
    claims = [claim(0, verdict, text) for verdict in ("supported", "contradicted", "partial")]
    line = result_line("a", status="judged", tier="llm", faithfulness=0.5, claims=claims)
    (kept,) = build_report([line]).worst

    (shown,) = answer_of(kept).sentences

    assert (shown.verdict, len(shown.claims)) == ("contradicted", 3)


def test_what_is_no_claim_is_in_no_list_of_claims() -> None:
    line = scored_line("a", 1.0, verdicts=("supported", "not_a_claim"))
    page = Page(render_html(build_report([line])))
    (kept,) = build_report([line]).worst

    shown = answer_of(kept)

    assert [len(sentence.claims) for sentence in shown.sentences] == [1, 0]
    assert shown_row(kept, 0).verdicts == (("supported", 1),)
    assert [sentence.verdict for sentence in shown.sentences] == ["supported", "not_a_claim"]
    assert {"value": "not_a_claim"} not in page.named("option")


@pytest.mark.parametrize(("decision", "said"), load_cases("report_page", "rules"))
def test_a_row_names_the_rule_that_decided_and_the_weakest_claim(decision: dict[str, Any], said: str) -> None:
    line = scored_line(
        "a", 0.9, passed=False, decision=decision, scores={"lowest_support": 0.125, "unsupported_claims": 2}
    )

    text = Page(render_html(build_report([line]))).text

    for each in (said, "did not pass", "lowest support 0.125", "claims not supported: 2"):
        assert each in text, each


def test_a_claim_says_its_probability_and_which_judge_decided() -> None:
    line = json.loads(scored_line("a", 0.9, verdicts=("supported",)))
    line["result"]["claims"][0] |= {"support": 0.64, "judge": "decision-<1>"}

    text = Page(render_html(build_report([json.dumps(line).encode()]))).text

    assert "decision-<1>" in text
    assert "0.64" in text


def test_a_row_leads_with_its_gravest_sentence() -> None:
    texts = {"fine": "supported", "wrong": "contradicted", "silent": "not_mentioned"}
    claims = [claim(place, verdict, text) for place, (text, verdict) in enumerate(texts.items())]
    line = result_line("a", status="judged", tier="llm", faithfulness=0.3, claims=claims)
    report = build_report([line, error_line("b", detail="no answer"), result_line("c", status="empty_answer")])

    assert [shown_row(kept, 0).lead for kept in (*report.worst, *report.unscored)] == ["wrong", "no answer", ""]


def test_sentences_that_no_tier_judged_have_no_verdict() -> None:
    (kept,) = build_report([result_line("a", status="not_judged")]).unscored

    (shown,) = answer_of(kept, Sample("", (), "Cats sleep.")).sentences

    assert (shown.text, shown.verdict) == ("Cats sleep.", None)


def test_an_answer_is_shown_by_its_own_text_where_the_sample_is_at_hand() -> None:
    answer = "# Report\n😀 It is wide. It is deep."
    units = {"code_point": (9, 22, 23, 34), "utf16": (9, 23, 24, 35)}
    for unit, (first, first_end, second, second_end) in units.items():
        claims = [
            {**claim(1, "supported", "wide"), "start": first, "end": first_end},
            {**claim(2, "partial", "deep"), "start": second, "end": second_end},
        ]
        line = result_line("a", status="judged", tier="llm", faithfulness=0.5, claims=claims, offset_unit=unit)
        (kept,) = build_report([line]).worst

        shown = answer_of(kept, Sample("", (), answer))

        assert [(each.text, each.verdict) for each in shown.sentences] == [
            ("# Report", "not_a_claim"),
            ("😀 It is wide.", "supported"),
            ("It is deep.", "partial"),
        ]


@pytest.mark.parametrize(("language", "html_lang"), [("en", "en"), ("zh", "zh-Hans")])
def test_the_language_is_said_and_spoken(language: ReportLanguage, html_lang: str) -> None:
    page = Page(render_html(build_report(LINES), language=language))

    assert page.named("html") == [{"lang": html_lang}]
    assert ("忠实度" in page.text) == (language == "zh")


def test_both_languages_have_the_same_words_with_the_same_places() -> None:
    def places(text: str) -> set[str]:
        return {name for _, name, _, _ in Formatter().parse(text) if name}

    assert list(ENGLISH) == list(CHINESE)
    assert {key for key in ENGLISH if places(ENGLISH[key]) != places(CHINESE[key])} == set()
    assert [key for key, text in CHINESE.items() if not re.search("[\u4e00-\u9fff]", text)] == []


def test_no_word_is_left_over() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in PARTS.parent.rglob("*")
        if path.is_file() and path.name not in {"english.py", "chinese.py"} and "__pycache__" not in path.parts
    )
    built = ("verdict_", "cited_", "status_", "tier_", "rule_", "by_")

    unused = [
        key
        for key in ENGLISH
        if not key.startswith(built)
        and not re.search(rf"""words\.{key}\b|["']{key}["']""", sources)
        and not key.endswith("_hint")
        and key not in (*METRICS, *ReferenceMeans.model_fields)
    ]

    assert unused == []


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_has_a_contrast_of_at_least_4_5(theme: int) -> None:
    colour = colours(CSS)[theme]
    pairs = [("ink", "page"), ("ink", "card"), ("soft", "page"), ("soft", "card"), ("ink", "field"), ("accent", "card")]
    pairs += [(f"{verdict}-ink", f"{verdict}-fill") for verdict in (*GRAVEST_FIRST, "not_a_claim")]

    ratios = {pair: contrast(colour[pair[0]], colour[pair[1]]) for pair in pairs}

    assert {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_of_charts_stand_out(theme: int) -> None:
    # WCAG 2.2, 1.4.11: 3 to 1; the stacked bar has its words and counts beside it.
    colour = colours(CSS)[theme]

    assert contrast(colour["bar"], colour["card"]) >= 3


def test_metrics_that_rows_were_asked_for_have_their_figures() -> None:
    asked = {"answer_relevance": metric(0.25), "context_precision@3": metric(1.0)}
    report = build_report([scored_line("q", 0.9, metrics=asked), scored_line("r", 0.9)])

    page, markdown = Page(render_html(report, language="zh")).text, markdown_summary(report)

    assert re.search(r"回答相关性\s*0\.250[\s\S]*上下文精确率@3\s*1\.000", page)
    assert "正确性" not in page
    header, _, row = [line for line in markdown.splitlines() if line.startswith("|")][:3]
    assert header.endswith("| Answer relevance | Context precision@3 |")
    assert row.endswith("| 0.250 | 1.000 |")
    assert "metrics" not in build_report([scored_line("q", 0.9)]).summary.model_dump_json()


def test_an_empty_report_is_a_page_too() -> None:
    assert "No row was judged." in Page(render_html(build_report([]))).text


def test_unseen_characters_are_written_out() -> None:
    assert visible("a\u202eb\x00\x1b") == "a⟦U+202E⟧b⟦U+0000⟧⟦U+001B⟧"
    assert visible("家\n\t👩\u200d💻") == "家\n\t👩\u200d💻"
    assert one_line("a\n b\u2028c  d", most=5) == "a b c…"


def test_a_chinese_page_says_reasons_warnings_gates_and_flags_in_chinese() -> None:
    doubted = claim(0, "not_mentioned", "Ada paid 77.") | {
        "reason": "in no context: 77", "reason_code": "in_no_context", "reason_fields": {"names": ["77"]},
        "flags": ["support_doubtful"],
    }  # fmt: skip
    warning = {"text": "", "code": "tier_failed", "fields": {"tier": "llm", "reason": "timeout"}}
    row = json.loads(scored_line("first", 0.25, tier="lexical", flags=["degraded"]))
    row["result"] |= {"claims": [doubted], "warnings": [warning]}
    line = json.dumps(row).encode()
    others = (result_line("e", status="empty_answer"), result_line("n", status="not_judged"), error_line("x"))
    gates = with_usual(map(parse_gate, ("faithfulness=0.8", "degraded=0.1", "decided=0.9", "abstained=0.1")))
    report = build_report(
        [line, unsure_line("u"), unsure_line("v"), *others, scored_line("c", 0.0, tier=None), b"{"], gates=gates
    )

    page = " ".join(Page(render_html(report, language="zh")).texts)
    markdown = markdown_summary(report, language="zh")

    assert "不在任何上下文中：77" in page
    assert "层级 llm 未作答（timeout）：不同层级的得分不可比较" in page
    assert load_words("zh")["tier_lexical"] in page
    assert "较高层级未能作答，由较低层级作答" in page
    for text in (page, markdown):
        assert "至少 0.8" in text
        assert "at most" not in text
        assert "rows" not in text
    assert "不是 JSON" in page
