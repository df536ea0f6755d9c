"""Measure how CPU grows with hostile texts: python -m benchmarks.growth [--parsers NAMES] [--families NAMES] [--all]

Every parser on every family of texts (`hostile_families`), at a quarter, a half and all of a megabyte of UTF-8. Prints
what takes over a tenth of a second at the last, the slowest first, with the exponent of its growth: log of the ratio of
the times over log of the ratio of the sizes; 1 is linear. What seems hopeless at a size is not tried at a larger one,
but reckoned from what was seen. Last line JSON. Exit status 1 when something takes over 2 s, or refuses by crashing.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product

from benchmarks.hostile_families import FAMILIES
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.judging.judge.context_windows import context_windows
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.replies import read_claims, read_sentences
from plumbline.judging.quantities.comparison import facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.text.checkable import abstains
from plumbline.judging.text.injection import inspect
from plumbline.judging.text.negation import differs
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.verdicts import Verdict, mark_duplicates, whole_sentence_claim
from plumbline.judging.text.words import Passage, detect_language, normalise, split_words
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.retrieval.ids import build_id_rule
from plumbline.retrieval.input_rows import NamedFile
from plumbline.retrieval.inputs import read_qrels, read_run
from plumbline.retrieval.llm_rankings import parse_ranking
from plumbline.retrieval.text_file import ReadLimits
from plumbline.rows.report.text_blocks import Piece, split_blocks

SIZES = (31_250, 250_000, 500_000, 1_000_000)
LIMIT_SECONDS = 2.0
_SHOWN_SECONDS = 0.1
_HOPELESS_SECONDS = 80.0
_UNKNOWN_GROWTH = 2.0
_LIMITS = ReadLimits(max_bytes=4_000_000, max_rows=1_000_000)


def _segmentation(text: str) -> None:
    split_sentences(text)


def void(_: object) -> None:
    """Forget a result."""


def _sample(text: str) -> None:
    """Half of the text as the answer, half as the context: the index of words, what is checkable, every wording."""
    half = len(text) // 2
    collect_lexical_findings(segment(Sample("", (text[half:],), text[:half])))


def _copies(text: str) -> None:
    """The same, with sentences that all stand in one endless sentence of the context."""
    half = len(text) // 2
    case = segment(Sample("", (text[half:].replace(".", " ").replace("\n", " "),), text[:half]))
    for sentence in case.sentences:
        case.index.best_match(sentence.text, split_words(sentence.text).content)


def _claims(text: str) -> None:
    """Claims of a text: those that are made twice, and the text within itself."""
    sentences = split_sentences(text)
    mark_duplicates([whole_sentence_claim(i, each, verdict=Verdict.PARTIAL) for i, each in enumerate(sentences)])
    Passage(text).contains(text[: len(text) // 2])


def _orders(text: str) -> None:
    inspect(Sample("", (text,), text[:1_000]))


def _windows(text: str) -> None:
    with suppress(TierFailure):
        context_windows([text], [split_sentences(text)], tokens=24_000)


def _pattern(text: str) -> None:
    """Match an id of 5,000 characters against patterns on which a backtracking engine takes for ever."""
    text = text[:5_000].encode("utf-8", "replace").decode() + "!"
    for pattern in (r"(a+)+$", r"((?:a|a)*)b", r"^((?:a?){200}a{200})$"):
        with suppress(InvalidInput):
            build_id_rule("regex", pattern=pattern)(text)


def _quote(cut: slice, change: str) -> Callable[[str], None]:
    def locate(text: str) -> None:
        search = EvidenceSearch([text], suspects=[(0, at, at + 1) for at in range(0, min(len(text), 20_000), 2)])
        quote = text[: len(text) // 2] if cut.stop is None else text[cut]
        found = search.locate(quote + change)
        if found is not None:
            search.stands_in_instruction(found)
            search.around(found, reach=1)

    return locate


def _comparison(text: str) -> None:
    """A claim of a few thousand characters, as long as a judge's may be, beside a long passage."""
    missing(read_amounts(text[:4_000]), facts_in(text))


def _negation(text: str) -> None:
    differs(text[:4_000], text)


def _reply(text: str) -> None:
    text = text[: SIZES[-1]]  # longer ones are refused unread
    read_sentences(text, range(100))
    read_claims(text, ["1.0"], is_truncated=True)


def _trec(text: str) -> None:
    data = text.encode("utf-8", "replace")
    with suppress(InvalidInput):
        read_qrels(NamedFile("f", data), limits=_LIMITS)
    with suppress(InvalidInput):
        read_run(NamedFile("f", data), name="f", limits=_LIMITS)


PARSERS: dict[str, Callable[[str], None]] = {
    "segmentation": _segmentation,
    "words": lambda text: void(split_words(text)),
    "normal form": lambda text: void(normalise(text)),
    "language": lambda text: void(detect_language(text)),
    "sample": _sample,
    "copies": _copies,
    "claims": _claims,
    "orders": _orders,
    "quote of 2000": _quote(slice(0, 2_000), ""),
    "altered quote of 2000": _quote(slice(0, 2_000), "x"),
    "altered quote of 60": _quote(slice(5, 65), " zq"),
    "quote of half": _quote(slice(None), ""),
    "altered quote of half": _quote(slice(None), "zq"),
    "numbers": lambda text: void(facts_in(text)),
    "numbers of a claim": lambda text: void(read_amounts(text)),
    "comparison": _comparison,
    "negation": _negation,
    "reply": _reply,
    "trec": _trec,
    "abstention": lambda text: void(abstains(text)),
    "blocks": lambda text: void(split_blocks((Piece(text),))),
    "windows": _windows,
    "ranking": lambda text: void(parse_ranking(text[:100_000], candidates=["a", "doc_1", "1"])),
    "id pattern": _pattern,
}


def seconds(parse: Callable[[str], None], text: str) -> float:
    """CPU seconds of one run."""
    started = time.process_time()
    parse(text)
    return time.process_time() - started


def measured(parser: str, family: str, sizes: Sequence[int]) -> list[float]:
    """CPU seconds at the sizes, as far as there is hope."""
    found: list[float] = []
    for position, size in enumerate(sizes):
        found.append(seconds(PARSERS[parser], FAMILIES[family](size)))
        growth = exponent(sizes, found) if position else _UNKNOWN_GROWTH
        following = sizes[position + 1] if position + 1 < len(sizes) else size
        if found[-1] * (following / size) ** max(1.0, growth) > _HOPELESS_SECONDS:
            break
    return found


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """How the time grows over the two last sizes that were tried; 1 for one size."""
    if len(times) == 1:
        return 1.0
    (smaller, larger), (before, after) = sizes[len(times) - 2 : len(times)], times[-2:]
    return math.log(max(after, 1e-4) / max(before, 1e-4)) / math.log(larger / smaller)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parsers", help="separated by commas (default: all)")
    parser.add_argument("--families", help="separated by semicolons (default: all)")
    parser.add_argument("--all", action="store_true", help="print the quick ones too")
    options = parser.parse_args()
    families = options.families.split(";") if options.families else list(FAMILIES)
    parsers = options.parsers.split(",") if options.parsers else list(PARSERS)
    for unknown in {*parsers} - {*PARSERS} | {*families} - {*FAMILIES}:
        parser.error(f"{unknown!r} is no parser or family; parsers are {', '.join(PARSERS)}")
    rows: list[tuple[float, float, int, str, str]] = []
    crashes = []
    for name, family in product(parsers, families):
        try:
            found = measured(name, family, SIZES)
        except Exception as error:
            crashes.append((name, family, f"{type(error).__name__}: {error}"[:120]))
            continue
        growth = exponent(SIZES, found)
        tried = SIZES[len(found) - 1]
        rows.append((found[-1] * (SIZES[-1] / tried) ** max(0.0, growth), growth, tried, name, family))
        if rows[-1][0] > LIMIT_SECONDS:
            print(f"SLOW {name} / {family}: {[round(each, 3) for each in found]}", file=sys.stderr, flush=True)
    rows.sort(reverse=True)
    print(f"{'s at 1 MB':>9} {'exponent':>8} {'tried':>9}  parser / family")
    for spent, growth, tried, name, family in rows:
        if options.all or spent > _SHOWN_SECONDS:
            print(f"{spent:9.3f} {growth:8.2f} {tried:9d}  {name} / {family}")
    for name, family, complaint in crashes:
        print(f"CRASH {name} / {family}: {complaint}")
    slow = sum(row[0] > LIMIT_SECONDS for row in rows)
    print(json.dumps({"pairs": len(rows), "slow": slow, "crashes": len(crashes)}))
    return 1 if crashes or slow else 0


if __name__ == "__main__":
    sys.exit(main())
