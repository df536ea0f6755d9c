"""Target replies: what a judge says, well formed, cut, mangled, or made up."""

import json
import re
from collections.abc import Sequence
from typing import Any

from benchmarks.fuzz.material import divided, raw, text_of
from plumbline.judging.judge.replies import ClaimReply, read_claims, read_sentences
from plumbline.judging.text.verdicts import Verdict

_WANTED = (1, 2, 3, 12)
_CLAIM_IDS = ("0.0", "1.0", "1.1", "²")
_PIECES = (
    '{"sentences": [', '{"claims": [', '"sentences": [', '"claims": [', '{"id": 1, "claims": [',
    '{"id": 2, "claims": [', '{"id": "1.0", ', '"id":', '"quotes": [', '"quote": ',
    '"verdict": ', '"supported"', '"not mentioned"', '"contradicted"', '"not_a_claim"',
    '"PARTIAL"', '{"claim": "x", "verdict": "supported", "quotes": ["y"], "context_ids": [1]}',
    "]}", "}]", "]}]}", "}", "]", "{", "[", ",", ":", '"', "'", "\\", "\\u0073", "\\ud800",
    "\\n", "\n", " ", "\t", "```json\n", "```", "<think>", "</think>", "1", "2", "3", "99",
    "-1", "1.0", "1e9999", "NaN", "Infinity", "null", "true", "false", "²", "٣", "9" * 5_000,
    '"derived": ', '"reason": ', '"context_ids": ', "大坝", "\ud800", "\0", "😀", "//", "/*", "# ",
    "prose", "Here is the JSON:", "x" * 700, '{"a":', "[" * 40, "None", "True",
)  # fmt: skip
_FLAGS = {
    "unknown_ids_dropped",
    "reply_too_long",
    "several_replies",
    "truncated_reply",
    "repaired_reply",
    "unreadable_reply",
}
_VERDICTS = ("supported", "partial", "contradicted", "not_mentioned", "not_a_claim")
_NOISE = ("", "```json\n", "Here it is: ", "<think>sentences</think>\n", "[", '{"x": 1}\n')
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
SEEDS = (
    *(
        raw(text)
        for text in (
            '{"sentences": [{"id": 1, "claims": [{"claim": "a", "context_ids": [1], "quotes": ["b"], "derived": false, '
            '"reason": "c", "verdict": "supported"}]}, {"id": 2, "claims": [{"verdict": "not mentioned"}]}]}',
            '```json\n{"claims": [{"id": "1.0", "verdict": "PARTIAL", "quote": "x",}]}\n```',
            '{"sentences": [{"id": 1, "claims": [{"verdict": "contradicted"}]}, {"id": 2, "cla',
            "{'sentences': [{'id': 1, 'claims': [{'verdict': 'supported'}]}]}",
        )
    ),
    bytes(range(40)) + b"truth",
)


def check(data: bytes) -> None:
    """Raises AssertionError where a reading says what the reply does not."""
    kind, rest = data[:1], data[1:]
    if b"\xe0" <= kind < b"\xf0":
        _check_true(rest)
        return
    content = text_of(data, _PIECES)
    for is_truncated in (False, True):
        sentences = read_sentences(content, _WANTED, is_truncated=is_truncated)
        assert set(sentences.claims) <= set(_WANTED), "an id that was not asked for"
        assert set(sentences.flags) <= _FLAGS, "unknown flag"
        claims = read_claims(content, _CLAIM_IDS, is_truncated=is_truncated)
        assert set(claims.claims) <= set(_CLAIM_IDS), "an id that was not asked for"
        assert set(claims.flags) <= _FLAGS, "unknown flag"
        said = [each for read in (sentences, claims) for many in read.claims.values() for each in many]
        assert all(sentences.claims.values()), "a sentence without claims"
        _check_said(said, content)
        assert sentences == read_sentences(content, _WANTED, is_truncated=is_truncated), "not the same twice"


def _check_said(said: Sequence[ClaimReply], content: str) -> None:
    spoken = re.sub(r"[\s\-_]", "", _ESCAPE.sub(lambda found: chr(int(found[1], 16)), content).lower())
    for claim in said:
        assert isinstance(claim.verdict, Verdict), "verdict"
        assert claim.verdict.replace("_", "") in re.sub(r"\\[ntrfb]", "", spoken), f"verdict {claim.verdict} made up"
        "".join((claim.claim, claim.reason, *claim.quotes)).encode()


def _check_true(data: bytes) -> None:
    """A reply that we wrote, with noise before it and its end cut off: what is read of it is what we wrote."""
    shape, cut, pad = divided(data, 3)
    truth: dict[int, list[tuple[str, str]]] = {}
    for number, code in enumerate(shape[:8]):
        text = text_of(pad[number:])[:40].encode("utf-8", "replace").decode()
        truth[number + 1] = [(text, _VERDICTS[(code + each) % 5]) for each in range(code % 3 + 1)]
    items: list[dict[str, Any]] = [
        {"id": number, "claims": [{"claim": text, "verdict": verdict} for text, verdict in claims]}
        for number, claims in truth.items()
    ]
    reply = json.dumps({"sentences": items}, ensure_ascii=bool(len(pad) % 2), indent=len(pad) % 3 or None)
    kept = len(reply) * (cut[0] + 1) // 256 if cut else len(reply)
    content = _NOISE[len(shape) % len(_NOISE)] + reply[:kept]
    reading = read_sentences(content, tuple(truth))
    for number, claims in reading.claims.items():
        assert [(each.claim, each.verdict.value) for each in claims] == truth[number], "not what was written"
    if kept == len(reply):
        assert set(reading.claims) == set(truth), "lost"
