"""Measure the check of a decision model's `supported` alone, on labelled sentences and on faults planted into them.

    python -m benchmarks.decision_check DEV.jsonl [RAGTRUTH_DEV.jsonl] [--seed 11]

Every sentence is called supported, at the context with most of its words. `as it is`: people marked nothing in it, or
marked a number, name or date of few words, or other words. Planted into one true sentence a row, each in turn: another
number, name, month or weekday, which no context has; a number of the contexts in place of another one (`swapped`); a
denial, or one taken away. Rows fall into two halves by their contexts: bounds and rules were chosen on `seen` ones;
the check was done before its results on the `fresh` ones were read. The last line is JSON.
"""

import argparse
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.decision_world import WorldRow, changed_answers, interval, place, read_rows
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import REFUTED
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.verdicts import Claim, Evidence, Verdict, whole_sentence_claim
from plumbline.judging.tiers.decision_check import DecisionCheck

_HAN = re.compile(r"[\u4e00-\u9fff]")
_BARE = re.compile(r"(?<![\w.,\[(/=-])\d{1,4}(?![\w\]/=-]|[.,]\d)")
_BARE_ZH = re.compile(r"(?<![\d.])\d{1,4}(?![\d.]|\])")
_DENIED = re.compile(r"\b(is|was|are|were|has|had|can|will|do|does|did|could|should) not\b")
_NEGATIVE = re.compile(r"\b(?:not|no|never|neither|nor|without)\b|n['’]t")
_VERB_ZH = re.compile("是|会|能|可以|已经|有|被")
_DENIALS_ZH = {"已经": "没有", "有": "没有", "被": "没有被"}
_STEPS = (3, 7, 11, 20, 100)
Change = Callable[[str, str, Sequence[str], random.Random], str | None]


def half_of(row: WorldRow) -> str:
    """Return `seen` or `fresh`, the same for all rows of one text."""
    texts = "".join(row.sample.contexts)[:400]
    return "fresh" if int(hashlib.sha256(f"fresh{texts}".encode()).hexdigest(), 16) % 2 else "seen"


def swapped(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    """Return the sentence with one of its numbers replaced by another one of the contexts."""
    others = sorted(set(_BARE.findall(contexts)) - set(re.findall(r"\d+", text)))
    known = [each for each in _BARE.finditer(text) if re.search(rf"(?<!\d){each[0]}(?!\d)", contexts)]
    if not known or not others:
        return None
    number = draw.choice(known)
    value = draw.choice([each for each in others if len(each) == len(number[0])] or others)
    return f"{text[: number.start()]}{value}{text[number.end() :]}"


def other_number_zh(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    known = [each for each in _BARE_ZH.finditer(text) if re.search(rf"(?<!\d){each[0]}(?!\d)", contexts)]
    if not known:
        return None
    number = draw.choice(known)
    values = (int(number[0]) + step for step in _STEPS)
    value = next((each for each in values if not re.search(rf"(?<!\d){each}(?!\d)", contexts)), None)
    return None if value is None else f"{text[: number.start()]}{value}{text[number.end() :]}"


def denied(text: str, contexts: str, names: Sequence[str], draw: random.Random) -> str | None:
    """Return the sentence with a denial, or without the one that it has."""
    if _HAN.search(text):
        verb = _VERB_ZH.search(text)
        if verb is None or set("不没未") & set(text):
            return None
        return f"{text[: verb.start()]}{_DENIALS_ZH.get(verb[0], f'不{verb[0]}')}{text[verb.end() :]}"
    if (said := _DENIED.search(text)) or _NEGATIVE.search(text):
        return f"{text[: said.end(1)]}{text[said.end() :]}" if said else None
    return changed_answers["negation"](text, contexts, names, draw)


PLANTED: Mapping[str, tuple[bool, Change]] = {
    "number": (False, changed_answers["number"]),
    "name": (False, changed_answers["name"]),
    "date": (False, changed_answers["date"]),
    "swapped": (False, swapped),
    "negation": (False, denied),
    "number, zh": (True, other_number_zh),
    "negation, zh": (True, denied),
}


def cases(rows: Sequence[WorldRow], *, seed: int) -> Iterator[tuple[str, str, Sample, Mapping[int, str]]]:
    """Yield half, how, sample, and what is wrong with its sentences, empty for a true one."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    names = sorted(
        {name for row in rows for name in re.findall(r"(?<=[a-z,] )[A-Z][a-z]{3,}(?![\w’'])", row.sample.answer)}
    )
    for row in rows:
        yield half_of(row), "as it is", row.sample, {at: row.kinds.get(at, "") for at in row.truths}
        found, contexts = segment(row.sample), "\n".join((row.sample.question, *row.sample.contexts))
        true = [at for at, is_true in row.truths.items() if is_true]
        for kind, (is_chinese, change) in PLANTED.items():
            for at in draw.sample(true, len(true)) if is_chinese == (found.language == "zh") else ():
                sentence = found.sentences[at]
                if (text := change(sentence.text, contexts, names, draw)) and text != sentence.text:
                    answer = f"{row.sample.answer[: sentence.start]}{text}{row.sample.answer[sentence.end :]}"
                    sample = replace(row.sample, answer=answer)
                    changed = segment(sample)
                    hit = [each for each in changed.checkable if changed.sentences[each].text == text]
                    if hit:
                        yield half_of(row), "planted", sample, {hit[0]: kind.removesuffix(", zh")}
                        break


def check(sample: Sample, positions: Sequence[int]) -> tuple[str, Sequence[Claim]]:
    """Return the language and what the check makes of these sentences, each called supported."""
    case = segment(sample)
    search = EvidenceSearch(
        sample.contexts,
        sentences=case.context_sentences,
        index=case.index,
        question=sample.question,
        without_marks=case.without_marks,
    )
    claims = []
    for at in positions:
        best = place(case.sentences[at].text, {str(number): text for number, text in enumerate(sample.contexts)})
        named = () if best is None else (Evidence(int(best), "", None, None, verified=False, kind="located"),)
        claim = whole_sentence_claim(at, case.sentences[at], verdict=Verdict.SUPPORTED)
        claims.append(replace(claim, support=0.95, evidence=named))
    return case.language, DecisionCheck(case, search)(claims)


def main() -> None:
    parser = argparse.ArgumentParser(description="The check of a decision model's verdicts alone.")
    parser.add_argument("data", type=Path, nargs="+", metavar="DEV.jsonl")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    said: Counter[str] = Counter()
    refuted: Counter[str] = Counter()
    for half, how, sample, wrong in cases(read_rows(options.data), seed=options.seed):
        language, claims = check(sample, list(wrong))
        for kind, claim in zip(wrong.values(), claims, strict=True):
            kinds = [kind or "right", *(["number, name or date"] if kind in ("number", "name", "date") else [])]
            for key in (f"{half}, {where}, {how}: {each}" for where in (language, "both") for each in kinds):
                said[key] += 1
                refuted[key] += REFUTED in claim.flags
    figures = {key: [refuted[key], count, *interval(refuted[key], count)] for key, count in sorted(said.items())}
    for key, (count, total, share, low, high) in figures.items():
        print(f"{key}: {count:g} of {total:g} refuted, {share:.1%} [{low:.1%}, {high:.1%}]")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
