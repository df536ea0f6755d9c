"""Prompt injection: text that addresses the judge instead of the reader is flagged."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from plumbline.judging.text.judge_instructions import instructing_sentences, may_instruct, sentences
from plumbline.judging.text.obfuscation import (
    LOOKALIKES,
    find_hidden,
    find_obfuscation,
    may_be_obfuscated,
    remove_hidden,
)
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import find_in_pieces

SUSPECTED = "injection_suspected"
# Every kind of finding, in the order of a result's flags; each comes with `injection_suspected`.
KINDS = (
    "instruction_to_judge",
    "verdict_in_text",
    "role_markers",
    "hidden_characters",
    "homoglyphs",
    "encoded_text",
    "padding",
)

# One character each, so that places stay where they are.
_SAME_LENGTH = str.maketrans(
    LOOKALIKES
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | {
        chr(code): plain
        for code in range(0x1D400, 0x1D800)
        if len(plain := unicodedata.normalize("NFKC", chr(code))) == 1 and plain.isascii()
    }
    | {"İ": "I", "：": ":", "“": '"', "”": '"', "\u00a0": " "}
)
_VERDICT = re.compile(
    r"verdicts?[\"']? {0,3}[:=] {0,3}[\"']?(?:supported|faithful|true|pass|correct|partial)"
    r"|faithful(?:ness)?(?:[_ ]score)?[\"']? {0,3}(?:[:=]|is|to|of|as|at|be) {0,3}[\"']?"
    r"(?:1(?:\.0{1,6})?(?![\d.,])|100 ?%|10 ?/ ?10|true\b|yes\b)"
    r"|hallucination(?:s|[_ ]rate|[_ ]score)?[\"']? {0,3}[:=] {0,3}[\"']?(?:0(?:\.0{1,6})?(?![\d.,])|none\b|false\b)"
    r"|(?:sentences|claims)[\"'] {0,3}: {0,3}\[\s{0,3}\{"
    r"|supported[\"'] {0,3}: {0,3}(?:true|1)\b"
    r"|忠实度(?:评分|得分|分数)? {0,3}(?:[:=]|为|是) {0,3}(?:1(?:\.0{1,6})?(?![\d.,])|100|满分|最高)"
    r"|(?:判定|结论|裁定|判决结果|评估结果)[\"']? {0,3}[:=] {0,3}[\"']?(?:支持|忠实|supported|通过)"
)
_VERDICT_ANCHORS = (
    "verdict", "faithful", "hallucination", "sentences", "claims", "supported", "忠实度",
    "判定", "结论", "裁定", "结果",
)  # fmt: skip
_ROLE = re.compile(
    r"<\|[a-z_]{2,24}\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>"
    r"|</?(?:system|data|contexts?|instructions?|untrusted|evidence|judge)>"
    r"|^[#*\s]{0,8}(?:system|assistant|developer)(?: prompt| message| note| instructions?| override)?[* ]{0,3}:(?!//)"
    r"|^[#*\s]{0,8}(?:系统|系统提示|系统消息|系统指令|开发者|助手)[* ]{0,3}:"
    r"|^#{1,4} ?(?:new )?(?:instructions?|system)\b"
    r"|\b(?:begin|end) (?:[0-9a-f]{16}|data|of (?:the )?(?:data|contexts?|untrusted|input))\b"
    r"|\b(?:new|updated) (?:system )?instructions?:|\bsystem (?:override|prompt:)",
    re.MULTILINE,
)
_ROLE_ANCHORS = (
    "<|", "[inst", "[/inst", "<<", "_of_turn", "</", "<", "system", "assistant", "developer", "系统", "开发者", "助手",
    "instruction", "begin ", "end ",
)  # fmt: skip
_LIST_REACH_CHARACTERS = 2_000
_COLON_REACH_CHARACTERS = 20
# Longer ones have some such word as a rule.
_MAX_PLAIN_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings in a sample.

    `flags`: `injection_suspected` and the kinds found, see `KINDS`; () for nothing. `suspects`: (context index, start,
    end) of what in the contexts instructs a judge or passes for its verdict. Handbooks, chat logs and articles on the
    subject hold such text honestly: it stays evidence, and a claim that has no other is flagged.
    """

    flags: tuple[str, ...]
    suspects: tuple[tuple[int, int, int], ...]


def inspect(sample: Sample) -> Inspection:
    """Return what in question, contexts and answer is written for the judge; linear in their length."""
    # Most short samples hold nothing of the kind, which is soon seen of all their texts at once.
    if _is_plain("\n".join((sample.question, sample.answer, *sample.contexts))):
        return Inspection((), ())
    kinds: set[str] = set()
    suspects: list[tuple[int, int, int]] = []
    for text in (sample.question, sample.answer):
        kinds |= {kind for kind, _ in _instructions(_readable(text))} | find_obfuscation(text)
    for index, context in enumerate(sample.contexts):
        readable = _readable(context)
        found = list(_instructions(readable))
        kinds |= {kind for kind, _ in found} | find_obfuscation(context)
        spans: list[tuple[int, int]] = []
        for start, end in sorted(span for _, span in found):
            if spans and start <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        # Hidden characters are one each: the k-th stands before the kept character of number start - k.
        kept_before = [start - k for k, start in enumerate(find_hidden(context))] if spans else []
        suspects += [
            (index, start + bisect_right(kept_before, start), end + bisect_right(kept_before, end - 1))
            for start, end in spans
        ]
    flags = (SUSPECTED, *(kind for kind in KINDS if kind in kinds)) if kinds else ()
    return Inspection(flags, tuple(suspects))


def _is_plain(text: str) -> bool:
    return len(text) <= _MAX_PLAIN_CHARACTERS and not (
        may_instruct(readable := _readable(text))
        or _has_any(_VERDICT_ANCHORS, readable)
        or _has_any(_ROLE_ANCHORS, readable)
        or may_be_obfuscated(text)
    )


def _has_any(anchors: Iterable[str], text: str) -> bool:
    return any(map(text.__contains__, anchors))


def _readable(text: str) -> str:
    """Return the text without hidden characters, look-alike letters made Latin, in lower case."""
    return remove_hidden(text).translate(_SAME_LENGTH).lower()


def _instructions(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for start, end in instructing_sentences(text):
        # The list that an instruction with a colon opens belongs to it.
        opens_list = text[max(0, end - _COLON_REACH_CHARACTERS) : end].rstrip().endswith(":")
        yield "instruction_to_judge", (start, _end_of_paragraph(text, end) if opens_list else end)
    if _has_any(_VERDICT_ANCHORS, text):
        reached = 0
        for match in find_in_pieces(_VERDICT, text):
            if match.end() > reached:
                start, reached = _around_verdict(text, match.start(), match.end())
                yield "verdict_in_text", (start, reached)
    if _has_any(_ROLE_ANCHORS, text):
        reached = 0
        for match in find_in_pieces(_ROLE, text):
            if match.end() > reached:
                start, reached = _line(text, match.start(), match.end())[0], _end_of_paragraph(text, match.end())
                yield "role_markers", (start, reached)


def _end_of_paragraph(text: str, start: int) -> int:
    blank = text.find("\n\n", start, start + _LIST_REACH_CHARACTERS)
    return blank if blank >= 0 else min(len(text), start + _LIST_REACH_CHARACTERS)


def _around_verdict(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the JSON object around a verdict, of its line without one."""
    opening = max(text.rfind(mark, max(0, start - _LIST_REACH_CHARACTERS), start) for mark in "{[")
    closing = max(text.rfind(mark, end, end + _LIST_REACH_CHARACTERS) for mark in "}]")
    if opening >= 0 and closing >= 0:
        return opening, closing + 1
    return _line(text, start, end)


def _line(text: str, start: int, end: int) -> tuple[int, int]:
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    first, last = max(first, start - _LIST_REACH_CHARACTERS), min(last, end + _LIST_REACH_CHARACTERS)
    touched = [(a + first, b + first) for a, b in sentences(text[first:last]) if a + first < end and b + first > start]
    return (touched[0][0], touched[-1][1]) if touched else (start, end)
