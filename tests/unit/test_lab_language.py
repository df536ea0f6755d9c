"""The lab in Chinese: every warning and the headings of every table; ids, names and numbers stay."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import plumbline
from plumbline.extras.lab.report.page import render_page
from plumbline.extras.lab.report.table import PARTS, readable, systems_table, translate, translate_headings
from plumbline.extras.lab.retrievers.dense import unread_language
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluate import evaluate
from plumbline.retrieval.fuse import fuse
from plumbline.retrieval.run import Run
from plumbline.retrieval.tables import as_markdown, as_text
from tests.making.lab_results import results_of

MESSAGES = tomllib.loads((PARTS / "messages.zh.toml").read_text(encoding="utf-8"))
RISING = {f"d{place}": float(place) for place in range(10)}
# Settings, ids and names of methods
KEPT = "missing_queries id_rule strip_chunk urn_uuid model wsum MiniLM e89b a456"
LATIN_WORD = re.compile(r"[a-z]{4,}")


def said(qrels: Mapping[str, Any], results: Mapping[str, Any], **conventions: object) -> tuple[str, ...]:
    measures = ["ndcg@2", "map_graded"]
    own = build_conventions("trec_eval", **{"duplicates": "first", **conventions})
    return evaluate(qrels, Run("r", results), measures, conventions=own).warnings


def fused(method: str, *results: Mapping[str, Any], norm: str | None = None) -> tuple[str, ...]:
    runs = [Run(f"R{place}", each) for place, each in enumerate(results)]
    return fuse(runs, method=method, norm=norm).warnings


WARNINGS = [
    *said({"q1": {"d1": 1}, "q2": {"d1": 0}}, {"q1": ["d1", "d1"], "q3": ["d1"]}),
    *said({"q1": {"d1": 1}, "q2": {"d1": 0}}, {"q1": ["d1"]}, missing_queries="skip", no_relevant="skip"),
    *said({"q1": {"d1": 1}}, {"q2": ["d1"]}, missing_queries="skip"),
    *said({"q1": {"d1": 1}}, {"q1": ["x1"]}),
    *said({"q1": {"d1": 1}}, {"q1": ["d1#0"]}),
    *said({"q1": {"123e4567-e89b-12d3-a456-426614174000": 1}}, {"q1": ["<123E4567-E89B-12D3-A456-426614174000>"]}),
    *said({"q1": {"d1": 1}}, {"q1": RISING}),
    *fused("rrf", {"q1": ["d1"]}, {"q1": ["d1"], "q2": ["d1"]}, norm="max"),
    *fused("wsum", {"q1": ["d1"]}, {"q1": {"d1": 20.0}}, norm="none"),
    *unread_language("all-MiniLM-L6-v2", ["这是一个关于机翼升力和阻力的中文文档。"]),
]


@pytest.mark.parametrize("warning", dict.fromkeys(WARNINGS))
def test_a_warning_is_chinese_but_for_ids_and_names(warning: str) -> None:
    chinese = translate(warning, "zh")

    assert chinese != warning
    assert re.search(r"[\u4e00-\u9fff]{4}", chinese)
    assert not set(LATIN_WORD.findall(chinese)) - set(LATIN_WORD.findall(KEPT))
    assert sorted(re.findall(r"[0-9]+", warning)) == sorted(re.findall(r"[0-9]+", chinese)) or "0 计" in chinese


def texts_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_translation_is_of_a_text_that_the_code_says_with_the_same_places() -> None:
    folder = Path(plumbline.__file__).parent
    files = [path for area in ("retrieval", "extras/lab", "client") for path in sorted((folder / area).rglob("*.py"))]
    files.append(folder / "cli/lab.py")
    source = "\n".join(text for path in files for text in texts_in(path))

    for english, chinese in MESSAGES.items():
        assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese)), english
        parts = [part for part in re.split(r"\{\w+\}", english) if part]
        # its beginning or end may be a variable of the code
        longest = max(parts, key=len).strip(" ;:,'()")
        assert any(longest[at : at + 12] in source for at in range(max(1, len(longest) - 11))), english


def test_a_text_that_nobody_translated_stays_as_it_is() -> None:
    assert translate("ValueError: no such thing", "zh") == "ValueError: no such thing"
    assert translate("there is no c.whole.a to blend", "en") == "there is no c.whole.a to blend"


def test_the_page_tells_warnings_failures_and_indexes_in_chinese() -> None:
    results = results_of(warning="nothing was found for any query")
    failed = replace(results, failures={"small.whole.lost": "there is no small.whole.dead to blend"})

    page = render_page(failed, language="zh")

    assert "对所有查询都没有检索到结果" in page
    assert "没有可供融合的 small.whole.dead" in page
    assert "处理器: one of two cores" in page
    assert "nothing was found" not in page


def test_tables_for_people_have_chinese_headings() -> None:
    table = translate_headings(readable(systems_table(results_of(), "small")), "zh")

    assert table.columns[:4] == ("标记", "系统", "ndcg@10", "map")
    assert "忠实度.llm" in table.columns
    assert as_markdown(table).startswith("| 标记 | 系统 | ndcg@10 | map | 平均毫秒 |")
    assert as_text(table).splitlines()[0].split()[:2] == ["标记", "系统"]
