"""Compares sentence splitters on the gold texts and on time: python -m benchmarks.segmentation

Prints a table of exact-boundary F1 by group, a table of seconds by shape and size, and one line of JSON last.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import sentencex  # type: ignore[import-untyped]
from nltk.tokenize.punkt import PunktSentenceTokenizer

from plumbline.judging.text.blocks import split_blocks
from plumbline.judging.text.segmentation import split_sentences

Span = tuple[int, int]
Splitter = Callable[[str], list[Span]]

GOLD = Path(__file__).parents[1] / "tests" / "data" / "segmentation_gold.json"
SIZES = (100_000, 200_000, 1_000_000)
LIMIT_SECONDS = 30
SHAPES = {
    "english": "The old mill burned down in 1990. It was rebuilt at a cost of 3.14 million! ",
    "chinese": "大坝昨日完工。水位正常，居民都很高兴！",
    "no terminator": "word and word ",
    "a.": "a.",
    '"': '"',
    "(": "(",
    "1.": "1.",
    "。": "。",
    "newlines": "\n",
    "# ": "# ",
    "|": "|",
    "spaces then x": " ",
    "e.g. ": "e.g. ",
    "[1]": "[1]",
    "> ": "> ",
    "fences": "```\n",
    "(a. ": "(a. ",
    ".[1]": ".[1]",
    "“a。": "“a。",
    "- a lines": "- a\n",
    "| a lines": "| a\n",
}


def ours(text: str) -> list[Span]:
    return [(sentence.start, sentence.end) for sentence in split_sentences(text)]


def sentencex_alone(text: str) -> list[Span]:
    """sentencex, told "zh" when a tenth of the text is Chinese, as a caller would have to."""
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in text)
    language = "zh" if chinese * 10 > len(text) else "en"
    boundaries = sentencex.get_sentence_boundaries(language, text)
    return _stripped(text, ((boundary["start_index"], boundary["end_index"]) for boundary in boundaries))


def punkt_alone(text: str) -> list[Span]:
    return _stripped(text, PunktSentenceTokenizer().span_tokenize(text))


def within_our_blocks(splitter: Splitter) -> Splitter:
    """The splitter let loose on the paragraphs and list items only."""

    def split(text: str) -> list[Span]:
        spans: list[Span] = []
        for block in split_blocks(text):
            if block.kind in ("prose", "list_item"):
                inner = splitter(text[block.start : block.end])
                spans += [(block.start + start, block.start + end) for start, end in inner]
            else:
                spans.append((block.start, block.end))
        return spans

    return split


SPLITTERS: dict[str, Splitter] = {
    "ours": ours,
    "sentencex": sentencex_alone,
    "blocks+sentencex": within_our_blocks(sentencex_alone),
    "punkt": punkt_alone,
    "blocks+punkt": within_our_blocks(punkt_alone),
}


def _stripped(text: str, spans: Iterator[Span]) -> list[Span]:
    stripped = []
    for start, end in spans:
        piece = text[start:end]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            stripped.append((start + lead, start + len(piece.rstrip())))
    return stripped


def _gold_spans(text: str, sentences: list[str]) -> set[Span]:
    spans, position = set(), 0
    for sentence in sentences:
        start = text.index(sentence, position)
        position = start + len(sentence)
        spans.add((start, position))
    return spans


def f1_by_group(splitter: Splitter) -> dict[str, float]:
    """F1 of whole sentences, right only when both ends are, by group of texts and over all of them."""
    counts: dict[str, list[int]] = {}
    for case in json.loads(GOLD.read_text(encoding="utf-8")):
        wanted, found = _gold_spans(case["text"], case["sentences"]), set(splitter(case["text"]))
        for group in (case["group"], "all"):
            hits_and_sizes = counts.setdefault(group, [0, 0])
            hits_and_sizes[0] += len(wanted & found)
            hits_and_sizes[1] += len(wanted) + len(found)
    return {group: round(2 * hits / size, 3) for group, (hits, size) in counts.items()}


def lost_characters(splitter: Splitter, text: str) -> int:
    """How many characters other than white space lie outside of the spans."""
    covered = sum(len("".join(text[start:end].split())) for start, end in splitter(text))
    return len("".join(text.split())) - covered


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError


def seconds(splitter: Splitter, text: str) -> float | None:
    """Seconds of a run, the better of two when it is short; None beyond the limit.

    A run inside compiled code cannot be interrupted: it ends first and counts as beyond the limit then.
    """
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LIMIT_SECONDS)
    try:
        first = _run(splitter, text)
        return min(first, _run(splitter, text)) if first < 1 else first
    except TimeoutError:
        return None
    finally:
        signal.alarm(0)


def _run(splitter: Splitter, text: str) -> float:
    start = time.perf_counter()
    splitter(text)
    return time.perf_counter() - start


def times(splitter: Splitter) -> dict[str, list[float | None]]:
    """Seconds by shape for each size; None for a size that at the growth seen so far would take beyond the limit."""
    by_shape: dict[str, list[float | None]] = {}
    for shape, unit in SHAPES.items():
        row: list[float | None] = []
        for size in SIZES:
            text = unit * (size // len(unit)) + ("x" if shape == "spaces then x" else "")
            row.append(None if _is_hopeless(row) else seconds(splitter, text))
        by_shape[shape] = row
    return by_shape


def _is_hopeless(row: list[float | None]) -> bool:
    if None in row:
        return True
    known = [value for value in row if value is not None]
    # Twice the size took over three times as long: worse than linear, and the last size is five times larger.
    return len(known) > 1 and known[-1] > 3 * known[-2] and known[-1] * 25 > LIMIT_SECONDS


def main() -> None:
    f1 = {name: f1_by_group(splitter) for name, splitter in SPLITTERS.items()}
    groups = list(f1["ours"])
    print(f"{'F1':<18}" + "".join(f"{group:>10}" for group in groups))
    for name, scores in f1.items():
        print(f"{name:<18}" + "".join(f"{scores[group]:>10.3f}" for group in groups))

    lost = {
        name: sum(lost_characters(splitter, unit * (1200 // len(unit))) for unit in SHAPES.values())
        for name, splitter in SPLITTERS.items()
    }
    print("\ncharacters lost over all shapes: " + ", ".join(f"{name} {count}" for name, count in lost.items()))

    timed = {name: times(splitter) for name, splitter in SPLITTERS.items() if not name.startswith("blocks")}
    header = "".join(f"{name:>27}" for name in timed)
    print(f"\n{'s at 100k/200k/1M':<18}{header}")
    for shape in SHAPES:
        cells = ("/".join(">30" if s is None else f"{s:.3f}" for s in rows[shape]) for rows in timed.values())
        print(f"{shape:<18}" + "".join(f"{cell:>27}" for cell in cells))
    print(json.dumps({"f1": f1, "lost_characters": lost, "seconds": timed}, ensure_ascii=False))


if __name__ == "__main__":
    main()
