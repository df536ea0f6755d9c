"""Citations: the marks of an answer, the passages they name, and the verdict on each."""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.citations import CitationVerdict
from plumbline.judging.judge.questions import Prompts, load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.citation_marks import cited_statements, find_marks
from plumbline.judging.text.sample import ContextLabels, Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions, Tier
from plumbline.rows.evaluation_wire import to_sample, to_wire
from plumbline.schemas.evaluation import ContextItem, EvaluationRequest, EvaluationResult
from tests.doubles.fakes import ScriptedChat
from tests.making.cases import load_cases

CASES = [json.loads(line) for line in Path("tests/data/citations.jsonl").read_text(encoding="utf-8").splitlines()]
CALIBRATIONS = load_calibrations(None)
SOUND = ("supported", "partial")
# The tag that Claude writes around a statement
CLAUDE = "cite index"
MUSEUM = ("The museum opened in 1931.", "The harbour was dredged in 1950.", "Admission costs 12 euros.")


class QuotingChat(ScriptedChat):
    """A judge that gives the verdicts and quotes of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__("")
        self._case = case

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        if "claims" in data:
            items: list[dict[str, Any]] = [
                {"id": each["id"], **self._said(each["text"], self._case["claims"])} for each in data["claims"]
            ]
            return ChatReply(json.dumps({"claims": items}), self.name)
        asked = [each for each in data["answer"] if "id" in each]
        items = [{"id": each["id"], "claims": self._claims(number, each["text"])} for number, each in enumerate(asked)]
        return ChatReply(json.dumps({"sentences": items}), self.name)

    def _claims(self, number: int, text: str) -> list[dict[str, Any]]:
        # A sentence is named by its number, or by words of it.
        places = [(each, each["sentence"]) for each in self._case["claims"]]
        meant = [each for each, place in places if place == number or (isinstance(place, str) and place in text)]
        return [{name: value for name, value in each.items() if name != "sentence"} for each in meant]

    def _said(self, text: str, claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
        meant = next((each for each in claims if each.get("claim") == text), claims[0])
        return {"quotes": meant["quotes"], "verdict": meant["verdict"], "reason": "so"}


def scored(sample: Sample, tier: Tier | None = None, *, base: int | None = None) -> SampleResult:
    judge = tier or LexicalTier(CALIBRATIONS, InlineExecutor())
    scorer = Scorer(JudgeCascade([judge]), InlineExecutor(), calibrations=CALIBRATIONS)
    return asyncio.run(scorer.score(sample, JudgeOptions(citation_base=base)))


def verdicts(result: SampleResult) -> list[str]:
    return [each.verdict.value for each in result.citations.citations] if result.citations else []


def on_wire(sample: Sample) -> EvaluationResult:
    return to_wire(scored(sample), sample, sample_id=None)


@cache
def _prompts() -> Prompts:
    return load_prompts()


def _sample(case: dict[str, Any]) -> Sample:
    return to_sample(EvaluationRequest(contexts=case["contexts"], answer=case["answer"]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["answer"][:40])
def test_every_verdict_of_a_case_is_right_with_a_judge(case: dict[str, Any]) -> None:
    tier = LlmTier({"default": QuotingChat(case)}, _prompts(), InlineExecutor())

    assert verdicts(scored(_sample(case), tier)) == case["verdicts"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_a_judge_cited_and_supporting_passages_are_told_apart(language: str) -> None:
    right, count = {True: 0, False: 0}, {True: 0, False: 0}
    for case in CASES:
        if case["language"] == language:
            for found, wanted in zip(verdicts(scored(_sample(case))), case["verdicts"], strict=True):
                count[wanted in SOUND] += 1
                right[wanted in SOUND] += (found in SOUND) == (wanted in SOUND)

    # .96 in both; 0.80 is wanted.
    assert sum(right[kind] / count[kind] for kind in right) / 2 >= 0.90


@pytest.mark.parametrize(
    ("answer", "labels"), load_cases("citations", "a_mark_is_read_in_every_usual_form_and_nothing_else_is", inner=list)
)
def test_a_mark_is_read_in_every_usual_form_and_nothing_else_is(answer: str, labels: list[str]) -> None:
    found = find_marks(Sample("", MUSEUM, answer), split_sentences(answer)).by_sentence

    marks = [mark for each in found.values() for mark in each]
    assert [mark.label for mark in marks] == labels
    assert all(answer[mark.start : mark.end] == mark.text for mark in marks)


@pytest.mark.parametrize(
    "noun",
    [
        *("source", "doc", "docs", "documents", "passage", "chunks", "Context", "refs", "reference", "citation"),
        *("来源", "文档", "资料", "片段", "段落", "参考", "参考文献", "出处"),
    ],
)
@pytest.mark.parametrize("number", ["2", " 2", "２"])
def test_a_source_is_named_by_its_kind_and_number(noun: str, number: str) -> None:
    answer = f"According to {noun}{number}, the harbour was dredged. {noun}{number} says that it is deep."

    found = find_marks(Sample("", MUSEUM, answer), split_sentences(answer)).by_sentence

    assert [mark.context for each in found.values() for mark in each] == [1, 1]


@pytest.mark.parametrize(
    ("label", "context"), [("manual-2", 1), ("Care of kettles", 1), ("care.pdf", 1), ("2", 1), ("manual-9", None)]
)
def test_a_label_names_a_context_by_id_title_source_or_position(label: str, context: int | None) -> None:
    labels = (ContextLabels("manual-1"), ContextLabels("manual-2", "Care of kettles", "care.pdf"))
    answer = f"Rinse it twice [{label}]."

    found = find_marks(
        Sample("", ("It heats.", "Rinse it twice."), answer, None, labels), split_sentences(answer)
    ).by_sentence

    assert [mark.context for each in found.values() for mark in each] == [context]


def test_a_tag_is_for_every_sentence_that_it_goes_around() -> None:
    answer = (
        f'The hall is old. <{CLAUDE}="2-1">It was dredged in 1950. The quay is deep enough.</cite> '
        f'<{CLAUDE}="1-1">It opened.</cite>'
    )
    found = find_marks(Sample("", MUSEUM, answer), split_sentences(answer)).by_sentence

    assert {position: [mark.context for mark in marks] for position, marks in found.items()} == {1: [1], 2: [1], 3: [0]}


STATEMENT = "The museum on the north bank was opened in 1931"
BANK = ("The museum on the north bank opened in 1931 with a hall.", *MUSEUM[1:])
LABELS = (ContextLabels("guide-2024", source="https://x.org/a"), ContextLabels(), ContextLabels())


@pytest.mark.parametrize("mark", load_cases("citations", "marks"))
def test_a_mark_takes_nothing_from_the_statement_that_it_stands_behind(mark: str) -> None:
    marked = Sample("", BANK, f"{STATEMENT}{mark}.", None, LABELS)
    chat = QuotingChat({"claims": [{"sentence": 0, "quotes": ["opened in 1931 with a hall"], "verdict": "supported"}]})

    plain, by_words = scored(Sample("", BANK, f"{STATEMENT}.", None, LABELS)), scored(marked)
    judged = scored(marked, LlmTier({"default": chat}, _prompts(), InlineExecutor()))

    assert [claim.support for claim in by_words.claims] == [claim.support for claim in plain.claims]
    # A number in a mark is no amount of the claim's: no doubt, and no second call for it.
    assert [(claim.verdict.value, claim.flags) for claim in judged.claims] == [("supported", ())]
    assert len(chat.requests) == 1
    assert verdicts(by_words)[0] == verdicts(judged)[0] == "supported"


@pytest.mark.parametrize(
    ("contexts", "answer", "found"), load_cases("citations", "numbers_in_contexts_are_known_from_marks_of_the_answer")
)
def test_numbers_in_contexts_are_known_from_marks_of_the_answer(
    contexts: tuple[str, ...], answer: str, found: tuple[str, ...]
) -> None:
    assert verdicts(scored(Sample("", contexts, answer))) == list(found)


def test_marks_can_count_from_zero() -> None:
    sample = Sample("", MUSEUM, "The museum opened in 1931 [0]. Admission costs 12 euros [2].")

    assert verdicts(scored(sample)) == verdicts(scored(sample, base=0)) == ["supported", "supported"]
    assert CitationVerdict.SUPPORTED.value not in verdicts(scored(sample, base=1))


def test_a_list_of_sources_cites_nothing_and_asserts_nothing() -> None:
    answer = "The museum opened in 1931 [1].\n\nSources:\n[1] The museum's guide of 2019\n[2] Report of the port"

    result = scored(Sample("", MUSEUM, answer))

    assert verdicts(result) == ["supported"]
    assert result.citations is not None
    assert (result.citations.recall, result.citations.uncited) == (1.0, ())


@pytest.mark.parametrize("sources", load_cases("citations", "links"))
def test_links_to_sources_are_no_claims(sources: str) -> None:
    result = scored(Sample("", MUSEUM, f"The museum opened in 1931 [1].\n\n{sources}"))

    assert [claim.text for claim in result.claims if claim.is_checkable] == ["The museum opened in 1931 [1]."]
    assert verdicts(result) == ["supported"]


def test_a_link_names_the_context_that_came_from_there() -> None:
    labels = (ContextLabels(source="https://example.org/port"), ContextLabels(source="https://example.org/museum/"))
    answer = "It opened in 1931 ([example.org](https://example.org/museum?utm_source=chatgpt.com))."

    found = find_marks(Sample("", MUSEUM[1::-1], answer, None, labels), split_sentences(answer)).by_sentence

    assert [mark.context for each in found.values() for mark in each] == [1]


def test_each_mark_within_a_sentence_is_for_the_statement_before_it() -> None:
    text = "It opened in 1931 [1] and was sold in 1950 [2][3]."
    (sentence,) = split_sentences(text)
    marks = find_marks(Sample("", MUSEUM, text), (sentence,)).by_sentence[0]

    statements = cited_statements(sentence, marks)

    assert [(each.text, [mark.label for mark in each.marks]) for each in statements] == [
        ("It opened in 1931", ["1"]),
        ("and was sold in 1950  .", ["2", "3"]),
    ]


def test_recall_counts_sentences_and_precision_counts_citations() -> None:
    # Four sentences assert: one is rightly cited, one wrongly, one names nothing, one cites nothing. Of three
    # citations one is right.
    answer = (
        "The museum opened in 1931 [1]. The harbour was dredged in 1950 [3]. Admission costs 12 euros [8]. "
        "The museum has a garden of roses."
    )

    citations = scored(Sample("", MUSEUM, answer)).citations

    assert citations is not None
    assert (citations.recall, citations.precision, citations.uncited) == (1 / 4, 1 / 3, (3,))


def test_a_mark_without_a_passage_is_told_whatever_the_status() -> None:
    declined = scored(Sample("", MUSEUM, "I don't know when it opened [5]."))
    alone = scored(Sample("", (), "The museum opened in 1931 [1]."))

    for result in (declined, alone):
        assert "citation_without_passage" in result.flags
        assert verdicts(result) == ["no_such_passage"]


def test_a_result_without_marks_has_no_field_of_citations() -> None:
    plain = on_wire(Sample("", MUSEUM, "The museum opened in 1931.")).model_dump(mode="json")

    assert not [name for name in plain if "cit" in name]
    assert all("context_id" not in evidence for claim in plain["claims"] for evidence in claim["evidence"])


def test_the_ids_of_contexts_stand_beside_their_indices() -> None:
    contexts = [ContextItem(id="a", text=MUSEUM[0]), ContextItem(id="b", text=MUSEUM[1])]
    sample = to_sample(EvaluationRequest(contexts=[*contexts], answer="The museum opened in 1931 [b]."))

    result = on_wire(sample)

    assert result.citations is not None
    (citation,) = result.citations
    assert (citation.context, citation.context_id, citation.better_context) == (1, "b", 0)
    assert [evidence.context_id for claim in result.claims for evidence in claim.evidence] == ["a"]


def test_a_title_is_evidence_and_offsets_count_in_the_text() -> None:
    text = "It opened in 1931 on the north bank."
    contexts = [ContextItem(title="The Marlow Museum", text=text)]
    sample = to_sample(EvaluationRequest(contexts=[*contexts], answer="The Marlow Museum opened in 1931."))

    claims = on_wire(sample).claims

    assert claims[0].verdict == "supported"
    (evidence,) = claims[0].evidence
    assert evidence.start is None or text[evidence.start : evidence.end] == evidence.quote


def test_an_answer_of_thousands_of_marks_is_judged_without_its_citations() -> None:
    answer = " ".join(f"The museum opened in 1931 by law {number} [{1 + number % 3}]." for number in range(150))
    contexts = tuple(" ".join(f"{text[:-1]} by law {number}." for number in range(150)) for text in MUSEUM)

    result = scored(Sample("", contexts, answer))

    assert "citations_not_judged" in result.flags
    assert result.citations is None
    assert result.scores is not None
