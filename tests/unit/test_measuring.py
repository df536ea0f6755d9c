"""Labelled answers as a tier measures them, and the encoder that keeps what it has just encoded."""

from plumbline.extras.calibration.calibrating import measure_rows, measuring_tier
from plumbline.extras.calibration.labels import LabelledRow
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.lexical_features import CHARACTER_MEASURES, WORD_MEASURES
from plumbline.judging.tiers.tier import TierName
from tests.doubles.fakes import WordEncoder

LAMP, DAM, ROPE = "The keeper lit the lamp.", "The dam of Keld is old.", "Anna sells red rope."


def _row(
    answer: str, *contexts: str, label: int = 1, dataset: str = "a", cluster: str = "1", lang: str = ""
) -> LabelledRow:
    return LabelledRow(Sample("", contexts, answer), label, dataset, cluster, 1, lang=lang)


async def test_sentences_of_the_answers_are_measured_in_the_order_of_their_documents() -> None:
    rows = [_row(f"{DAM} It is grey.", DAM, label=0, cluster="2"), _row(LAMP, LAMP)]

    measured = await measure_rows(rows, measuring_tier(TierName.LEXICAL, WordEncoder()), language="en")

    assert measured is not None
    answers = measured.answers
    assert (answers.names, measured.refused) == (WORD_MEASURES, 0)
    assert (answers.owners.tolist(), answers.labels.tolist()) == ([0, 1, 1], [1.0, 0.0])
    assert answers.lengths.tolist() == [24.0, 23.0, 11.0]
    assert answers.is_copy.tolist() == [True, True, False]
    assert answers.clusters.tolist() == ["1", "2"]


async def test_unrelated_contexts_are_those_of_another_document() -> None:
    rows = [_row(LAMP, LAMP), _row(ROPE, ROPE, cluster="2"), _row(LAMP, LAMP)]

    measured = await measure_rows(rows, measuring_tier(TierName.LEXICAL, WordEncoder()), language="en")

    assert measured is not None
    assert not measured.unrelated.is_copy.any()
    assert len(measured.unrelated) == 3
    assert measured.unrelated.column("character_coverage").max() < 0.2


async def test_only_answers_in_the_language_are_measured() -> None:
    rows = [
        _row(LAMP, LAMP),
        _row("大坝建成。", "大坝建成。", cluster="2"),
        _row(DAM, DAM, lang="zh", cluster="3"),  # the row contradicts its text
        _row(ROPE, ROPE, lang="en", cluster="4"),
    ]
    tier = measuring_tier(TierName.LEXICAL, WordEncoder())

    english, chinese = [await measure_rows(rows, tier, language=language) for language in ("en", "zh")]

    assert english is not None
    assert chinese is not None
    assert english.answers.clusters.tolist() == ["1", "4"]
    assert (chinese.answers.clusters.tolist(), chinese.answers.names) == (["2"], CHARACTER_MEASURES)
    assert await measure_rows(rows, tier, language="other") is None


async def test_answers_that_a_tier_refuses_are_counted() -> None:
    rows = [_row(LAMP, LAMP), _row("xx yy lamp.", LAMP, cluster="2")]
    tier = measuring_tier(TierName.EMBEDDING, WordEncoder("m", unknown_words={"xx", "yy"}))

    measured = await measure_rows(rows, tier, language="en")

    assert measured is not None
    assert (tier.model, measured.refused, len(measured.answers)) == ("m", 1, 1)
    assert measured.answers.names == ("alignment", *WORD_MEASURES)
    assert measured.answers.column("alignment").tolist() == [1.0]


async def test_copies_in_a_language_that_the_model_does_not_read_count_as_refused() -> None:
    rows = [_row("大坝建成。", "大坝建成。", lang="zh"), _row("大坝很旧。", "大坝建成。", cluster="2", lang="zh")]
    tier = measuring_tier(TierName.EMBEDDING, WordEncoder("m", languages={"en"}))

    assert await measure_rows(rows, tier, language="zh") is None
