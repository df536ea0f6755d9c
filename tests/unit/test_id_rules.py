"""Ids of chunks become ids of documents, and a pattern cannot hang the service."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluation import evaluate
from plumbline.retrieval.ids import build_id_rule, find_uuids
from plumbline.retrieval.run import Run

CASES = json.loads((Path(__file__).parents[1] / "data/retrieval_inputs.json").read_text("utf-8"))["ids"]


@pytest.mark.parametrize("case", CASES, ids=[case["written"][:30] for case in CASES])
def test_each_shared_case_is_met(case: dict[str, Any]) -> None:
    written = case["written"]

    compared = list(find_uuids(written)) if case["rule"] == "urn_uuid_all" else build_id_rule(case["rule"])(written)

    assert compared == case["compared"]


@pytest.mark.parametrize(
    "written",
    ["doc-12::chunk-3", "doc-12#4", "doc-12_chunk_3", "doc-12_part_2", "doc-12-part-2", "doc-12_分块_3", "doc-12"],
)
def test_a_chunk_suffix_is_stripped(written: str) -> None:
    assert build_id_rule("strip_chunk")(written) == "doc-12"


@pytest.mark.parametrize("chunk", ["doc{}_{}", "doc{}:{}", "doc{}_part_{}", "doc{}#{}"])
def test_seed_4_the_chunks_of_a_judged_document_are_that_document(chunk: str) -> None:
    run = Run("run", {"q1": [chunk.format(2, 1), chunk.format(2, 2), chunk.format(1, 3)]})

    evaluation = evaluate({"q1": {"doc1": 1}}, run, ["mrr"], conventions=build_conventions("seed-4"))

    assert evaluation.means["mrr"] == 0.5


def test_the_number_of_a_judged_id_is_no_chunk() -> None:
    run = Run("run", {"q1": ["doc_00_1", "doc_00_2"]})

    evaluation = evaluate({"q1": {"doc_00_2": 1}}, run, ["mrr"], conventions=build_conventions("seed-4"))

    assert evaluation.means["mrr"] == 0.5


@pytest.mark.parametrize("chunk", ["doc1_3", "doc1:3", "doc1_part_2", "doc1::chunk-0", "文档1_分块_3"])
def test_ids_that_look_like_chunks_are_told_when_no_rule_is_set(chunk: str) -> None:
    judged = {"q1": {"文档1" if chunk.startswith("文") else "doc1": 1}}

    evaluation = evaluate(judged, Run("run", {"q1": [chunk]}), ["mrr"])

    assert "looks like a chunk of a judged document: set id_rule to 'strip_chunk'" in evaluation.warnings[-1]


def test_an_id_of_a_megabyte_is_not_looked_at_for_chunks_of_judged_documents() -> None:
    # A search in it would hold the interpreter for a tenth of a second.
    long = "doc1" * 250_000

    evaluation = evaluate({"q1": {long: 1}}, Run("run", {"q1": [f"{long}_3", "d"]}), ["mrr"])

    assert not any("looks like a chunk" in each for each in evaluation.warnings)


def test_the_group_of_a_pattern_is_the_id_and_no_match_keeps_it() -> None:
    rule = build_id_rule("regex", pattern=r"^(.+)/p\d+$")

    assert (rule("文档/p3"), rule("doc")) == ("文档", "doc")


def test_a_list_of_several_uuids_is_not_one_id() -> None:
    first, second = "27c682dc-c97b-4c3e-b41c-999c65264a6d", "417fbc69-80f9-4b53-8b5c-1c9cdd2bb0e9"

    with pytest.raises(InvalidInput, match="holds 2 UUIDs"):
        build_id_rule("urn_uuid")(f"['{first}', '{second}']")


@pytest.mark.parametrize(
    "pattern", [None, "", "(", "a", "(a)(b)", r"(a)\1", "(?=a)(b)", "((a{100}){100}){100}", "(a" * 2000]
)
def test_a_bad_pattern_is_refused(pattern: str | None) -> None:
    with pytest.raises(InvalidInput, match="pattern"):
        build_id_rule("regex", pattern=pattern)


def test_an_unknown_rule_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'urn_uuid'"):
        build_id_rule("urn_uid")


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"((?:a|a)*)b", r"^((?:a?){200}a{200})$"])
def test_a_hostile_pattern_is_matched_in_linear_time_or_refused(pattern: str) -> None:
    text, found = "a" * 5_000 + "!", None
    with suppress(InvalidInput):
        found = build_id_rule("regex", pattern=pattern)(text)

    # A backtracking engine would not be back before the test's timeout.
    assert found is None or found in text
