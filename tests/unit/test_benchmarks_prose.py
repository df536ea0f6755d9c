"""Samples of benchmarks: as large as they say, and no text twice."""

import json
from pathlib import Path

import pytest

from benchmarks.prose import Prose, made_prose, prose_of, tier_texts
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences


def _sentences(sample: Sample) -> list[str]:
    return [each.text for text in (*sample.contexts, sample.answer) for each in split_sentences(text)]


def test_a_typical_sample_has_five_contexts_of_184_words_and_an_answer_of_five_sentences() -> None:
    sample = made_prose(1).typical()

    assert [len(context.split()) for context in sample.contexts] == [184] * 5
    assert len(split_sentences(sample.answer)) == 5
    assert len(tier_texts(sample)) == 45


def test_samples_of_one_prose_have_no_sentence_in_common() -> None:
    prose = made_prose(1)

    sentences = [each for _ in range(50) for each in _sentences(prose.typical())]

    assert len(set(sentences)) == len(sentences) == 50 * 45


def test_the_same_seed_gives_the_same_samples_and_another_does_not() -> None:
    first, again, other = (made_prose(seed).typical() for seed in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize(("shared", "distinct"), [(0, 100), (4, 28)])
def test_answers_that_share_their_contexts_share_so_many_of_their_sentences(shared: int, distinct: int) -> None:
    samples = made_prose(1).sharing(20, shared=shared)

    said = [each.text for sample in samples for each in split_sentences(sample.answer)]
    assert {sample.contexts for sample in samples} == {samples[0].contexts}
    # Of 20 answers of 5: either all, or a common 8 and one more of each.
    assert (len(said), len(set(said))) == (100, distinct)


def test_a_copied_answer_stands_in_the_contexts_and_a_reported_one_does_but_for_its_openings() -> None:
    prose = made_prose(1)

    copied, reported = prose.shaped(wording="copy"), prose.shaped(answer=80, wording="report")

    assert all(each.text in " ".join(copied.contexts) for each in split_sentences(copied.answer))
    said = [each.text for each in split_sentences(reported.answer)]
    assert len(set(said)) == 80
    assert not any(each in " ".join(reported.contexts) for each in said)


def _file_prose(folder: Path) -> Prose:
    told = ["The old mill by the river was opened in 1931. It was closed again after the war."]
    rows = [
        {"contexts": told, "answer": "The mill was opened in 1931."},
        {"contexts": told, "answer": "I don't know."},
        {"contexts": ["大坝昨日完工，水位正常，居民都很高兴。"], "answer": "大坝昨日完工。", "lang": "zh"},
    ]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return prose_of(path, 1)


def test_english_rows_of_a_file_that_a_tier_has_to_judge_are_typical_samples_as_they_are(tmp_path: Path) -> None:
    prose = _file_prose(tmp_path)

    assert prose.typical().answer == "The mill was opened in 1931."
    with pytest.raises(ValueError, match="too few sentences or rows"):
        prose.typical()


def test_other_samples_are_put_together_of_the_sentences_of_a_file(tmp_path: Path) -> None:
    sample = _file_prose(tmp_path).small()

    assert sample.contexts == ("The old mill by the river was opened in 1931.",)
    # Answers of fewer than 40 characters say too little to be taken.
    assert sample.answer == "As is said, The old mill by the river was opened in 1931."
