"""Requests to a judge: a prompt's file, the sample as numbered data between marks, and the schema of the reply.

Everything here counts sentences and contexts from 1; `_question` alone puts the ids of the request in their place.
"""

import hashlib
import hmac
import json
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from plumbline.ground.errors import PromptError
from plumbline.judging.ports.exchange import ChatRequest
from plumbline.judging.ports.numbering import Numbering
from plumbline.judging.text.obfuscation import remove_hidden
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.text.words import Language, detect_language
from plumbline.judging.tiers.context_windows import Piece, Window
from plumbline.judging.tiers.evidence.verdict_rules import word_stems
from plumbline.judging.tiers.probes import AskedProbes, compared_claims, reference_sentences

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_COMPLETE_FORM_VERSIONS = frozenset({"v1", "v2"})
_VARIABLES = frozenset({"marker", "data"})
# Answers in any other language are judged with the English prompt.
_FILE_LANGUAGE: Mapping[Language, str] = {"en": "en", "zh": "zh", "other": "en"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file. `digest` is the SHA-256 of its bytes, so that a result names the exact text.

    `parts`: texts by name that requests put together as they need them.
    """

    name: str
    version: str
    language: str
    system: str
    user: str
    digest: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete_form(self) -> bool:
        """Return True if it asks for every member of every claim, and gives claims without the answer around them."""
        return self.version in _COMPLETE_FORM_VERSIONS

    @property
    def label(self) -> str:
        return f"{self.name}/{self.version}.{self.language}"

    def render_user(self, *, marker: str, data: str) -> str:
        """Fill in the user message, in one pass: a placeholder inside a value stays as it is."""
        values = {"marker": marker, "data": data}
        return _PLACEHOLDER.sub(lambda found: values[found.group(1)], self.user)


class PromptLibrary:
    """Prompts of one name and version, by language; read and checked once."""

    def __init__(self, name: str, version: str, *, folder: Path | None = None) -> None:
        """Raises:
        PromptError: a file is missing, malformed, or uses an unknown variable.
        """
        packaged = files("plumbline").joinpath("_prompts")
        root = folder or (packaged if packaged.is_dir() else Path(__file__).parents[4] / "prompts")
        self._by_language = {
            language: _load(root.joinpath(name, f"{version}.{language}.toml"), name, version, language)
            for language in sorted(set(_FILE_LANGUAGE.values()))
        }

    def __iter__(self) -> Iterator[Prompt]:
        return iter(self._by_language.values())

    def for_language(self, language: Language) -> Prompt:
        return self._by_language[_FILE_LANGUAGE[language]]


def _load(path: Traversable, name: str, version: str, language: str) -> Prompt:
    label = f"prompt {name}/{version}.{language}.toml"
    try:
        raw = path.read_bytes()
        fields = tomllib.loads(raw.decode())
    except OSError as error:
        raise PromptError(f"{label}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PromptError(f"{label}: not TOML in UTF-8 ({error})") from error
    parts = fields.pop("parts", {})
    texts = {key: fields.get(key) for key in ("system", "user")}
    if not isinstance(parts, dict) or not all(isinstance(text, str) for text in parts.values()):
        raise PromptError(f"{label}: expected texts in the table 'parts'")
    if set(fields) != set(texts) or not all(isinstance(text, str) and text.strip() for text in texts.values()):
        raise PromptError(f"{label}: expected exactly the texts 'system' and 'user'")
    if found := _PLACEHOLDER.search("\n".join((texts["system"] or "", *parts.values()))):
        raise PromptError(f"{label}: 'system' uses {found.group()}, but only 'user' is filled in")
    used = set(_PLACEHOLDER.findall(texts["user"] or ""))
    if used != _VARIABLES:
        raise PromptError(f"{label}: 'user' uses {sorted(used)}, expected {sorted(_VARIABLES)}")
    return Prompt(
        name=name,
        version=version,
        language=language,
        system=str(texts["system"]).strip(),
        user=str(texts["user"]).strip(),
        digest=hashlib.sha256(raw).hexdigest(),
        parts={key: text.strip() for key, text in parts.items()},
    )


# From the data between the marks to a mark that no text in there can know.
Mark = Callable[[str], str]

_MARKER_BYTES = 8
# Sentences before the first that is judged, for the pronouns in it.
_LEAD_SENTENCES = 2
_MAX_SHOWN_SENTENCES = 200
_NO_DOUBTS: Mapping[str, str] = MappingProxyType({})


def random_mark(_: str) -> str:
    return secrets.token_hex(_MARKER_BYTES)


def keyed_mark(secret: bytes) -> Mark:
    """Return a function that marks the same data alike, for repeatable requests; unpredictable without the secret."""

    def mark(data: str) -> str:
        return hmac.digest(secret, data.encode("utf-8", "surrogatepass"), "sha256")[:_MARKER_BYTES].hex()

    return mark


def sentences_question(
    prompt: Prompt,
    sample: SegmentedSample,
    *,
    window: Window,
    batch: Mapping[int, int],
    max_output_tokens: int,
    controls: Mapping[int, str] = MappingProxyType({}),
    mark: Mark = random_mark,
    probes: AskedProbes = (),
    probe_prompt: Prompt | None = None,
) -> ChatRequest:
    """Build a request for the claims of sentences and the verdicts on them; `batch` has their numbers by position.

    `controls`: texts by number, which stand among the sentences. `probes` are asked in the same reply.
    """
    first, last = min(batch), max(batch)
    answer: list[Mapping[str, object]] = []
    for position in range(max(0, first - _LEAD_SENTENCES), last + 1):
        sentence = sample.sentences[position]
        if position in batch:
            answer.append({"id": batch[position], "text": remove_hidden(sentence.text)})
        elif sentence.kind != "markup":
            answer.append({"text": remove_hidden(sentence.text)})
    answer += [{"id": number, "text": remove_hidden(text)} for number, text in controls.items()]
    data = {**_surroundings(sample, window), "answer": answer}
    schema = VERIFY_SCHEMA if prompt.is_complete_form else SLIM_VERIFY_SCHEMA
    if probe_prompt is None:
        probes = ()
    asked = _question(
        prompt,
        data,
        "verify_claims",
        schema,
        max_output_tokens,
        verdicts=len(batch) + len(controls) + _count(probes),
        ids={"id": (*batch.values(), *controls), **_context_ids(window), **_probe_ids(probes)},
        mark=mark,
    )
    if probe_prompt is None or not probes:
        return asked
    parts = probe_prompt.parts
    return replace(
        asked,
        system="\n".join((asked.system, "", parts["beside"], *(probe.instructions(parts) for probe, _ in probes))),
        user=f"{asked.user}\n{parts['reminder']}",
        schema=_object_schema({**schema["properties"], **_probe_lists(probes)}),  # type: ignore[dict-item]
    )


def probes_question(
    prompt: Prompt,
    sample: SegmentedSample,
    *,
    window: Window,
    probes: AskedProbes,
    claims: Sequence[Claim],
    max_output_tokens: int,
    mark: Mark = random_mark,
) -> ChatRequest:
    """Build a request for the verdicts of probes alone, with the data that they need."""
    shown = {name for probe, _ in probes for name in probe.shows}
    wanted = {each for probe, ids in probes if probe.about == "context" for each in ids}
    needs_all = any("contexts" in probe.shows and probe.about != "context" for probe, _ in probes)
    pieces = [piece for piece in window if needs_all or str(piece.number) in wanted]
    number_by_position = {position: number for number, position in enumerate(sample.checkable, start=1)}
    answer = [
        {**({"id": number_by_position[at]} if at in number_by_position else {}), "text": remove_hidden(each.text)}
        for at, each in enumerate(sample.sentences)
        if each.kind != "markup"
    ]
    reference = reference_sentences(sample.source.reference).items()
    if all(probe.needs_reference for probe, _ in probes):
        pieces = [piece for piece in pieces if _may_state(piece.text, sample.source.reference or "")]
    data = {
        **_surroundings(sample, pieces),
        "reference": [{"id": int(number), "text": remove_hidden(text)} for number, text in reference],
        "answer": answer,
        "claims": [
            # Of most sentences, which need not be shown twice.
            {"id": each.id, "sentence": number_by_position[each.sentence]}
            if "answer" in shown and each.text == sample.sentences[each.sentence].text
            else {"id": each.id, "text": remove_hidden(each.text)}
            for each in compared_claims(claims)
        ],
    }
    return _question(
        replace(prompt, system="\n".join((prompt.system, *(probe.instructions(prompt.parts) for probe, _ in probes)))),
        {name: value for name, value in data.items() if name in shown},
        "ask_metrics",
        _object_schema(_probe_lists(probes)),
        max_output_tokens,
        verdicts=_count(probes),
        ids=_probe_ids(probes),
        mark=mark,
    )


def _may_state(passage: str, reference: str) -> bool:
    """Return False for a passage that has no content word of a reference in its language."""
    is_comparable = detect_language(passage) == detect_language(reference)
    return not is_comparable or not word_stems(passage).isdisjoint(word_stems(reference))


def _probe_lists(probes: AskedProbes) -> dict[str, Any]:
    return {probe.name: {"type": "array", "items": probe.schema} for probe, _ in probes}


def _probe_ids(probes: AskedProbes) -> dict[str, Sequence[int | str]]:
    return {
        probe.about: [each if probe.about == "claim_id" else int(each) for each in ids]
        for probe, ids in probes
        if probe.about
    }


def _count(probes: AskedProbes) -> int:
    return sum(len(ids) for _, ids in probes)


def claims_question(
    prompt: Prompt,
    sample: SegmentedSample,
    *,
    window: Window,
    claims: Sequence[Claim],
    max_output_tokens: int,
    doubts: Mapping[str, str] = _NO_DOUBTS,
    temperature: float | None = None,
    mark: Mark = random_mark,
) -> ChatRequest:
    """Build a request for verdicts on claims; `doubts` by claim id say what a check found, for a second look."""
    data = _surroundings(sample, window)
    if prompt.is_complete_form:
        data["claims"] = [{"id": claim.id, "text": remove_hidden(claim.text)} for claim in claims]
    else:
        data["answer"] = [
            {"id": number, "text": remove_hidden(sentence.text)}
            for number, sentence in _shown(sample, claims)
            if sentence.kind != "markup"
        ]
        data["claims"] = [
            {
                "id": claim.id,
                "sentence": claim.sentence + 1,
                "text": remove_hidden(claim.text),
                **({"doubt": doubts[claim.id]} if claim.id in doubts else {}),
            }
            for claim in claims
        ]
    schema = CHECK_SCHEMA if prompt.is_complete_form else SLIM_CHECK_SCHEMA
    return _question(
        prompt,
        data,
        "check_claims",
        schema,
        max_output_tokens,
        verdicts=len(claims),
        ids={"id": [claim.id for claim in claims], **_context_ids(window)},
        mark=mark,
        temperature=temperature,
    )


def _shown(sample: SegmentedSample, claims: Sequence[Claim]) -> Iterator[tuple[int, Sentence]]:
    """Return the sentences of the answer with their numbers; of a long answer those around the claims alone."""
    numbered = enumerate(sample.sentences, start=1)
    if len(sample.sentences) <= _MAX_SHOWN_SENTENCES:
        return numbered
    positions = [claim.sentence for claim in claims]
    return islice(numbered, max(0, min(positions) - _LEAD_SENTENCES), max(positions) + 1)


def _surroundings(sample: SegmentedSample, window: Sequence[Piece]) -> dict[str, object]:
    # Contexts first, as providers cache the common beginning of requests.
    contexts = [{"id": piece.number, "text": remove_hidden(piece.text)} for piece in window]
    return {"contexts": contexts, "question": remove_hidden(sample.source.asked)}


def _question(
    prompt: Prompt,
    data: Mapping[str, object],
    schema_name: str,
    schema: Mapping[str, object],
    max_output_tokens: int,
    *,
    verdicts: int,
    ids: Mapping[str, Sequence[int | str]],
    mark: Mark,
    temperature: float | None = None,
) -> ChatRequest:
    marker = mark(_json(data))
    numbering = Numbering.draw(marker, (item for items in data.values() if isinstance(items, list) for item in items))
    shown = {
        name: [numbering.show(item) for item in value] if isinstance(value, list) else value
        for name, value in data.items()
    }
    return ChatRequest(
        system=prompt.system,
        user=prompt.render_user(marker=marker, data=_json(shown)),
        schema_name=schema_name,
        schema=schema,
        max_output_tokens=max_output_tokens,
        verdicts=verdicts,
        temperature=temperature,
        ids={name: [numbering.shown_id(each) for each in numbers] for name, numbers in ids.items()},
        numbering=numbering,
    )


def _json(data: Mapping[str, object]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def _context_ids(window: Window) -> dict[str, Sequence[int | str]]:
    return {"context_ids": [*dict.fromkeys(piece.number for piece in window)]}


_STRING: Final = {"type": "string"}
_QUOTES: Final = {"type": "array", "items": _STRING}
_VERDICT_MEMBERS: Final[Mapping[str, Any]] = {
    "context_ids": {"type": "array", "items": {"type": "integer"}},
    "quotes": _QUOTES,
    "derived": {"type": "boolean"},
    "reason": _STRING,
    "verdict": {"type": "string", "enum": [verdict.value for verdict in Verdict]},
}
# Nothing but the passage: what most claims need.
_PLAINLY_SUPPORTED: Final[Mapping[str, Any]] = {
    "quotes": _QUOTES,
    "verdict": {"type": "string", "enum": [Verdict.SUPPORTED.value]},
}


def _object_schema(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these members, all required, in this order."""
    return {"type": "object", "properties": dict(members), "required": list(members), "additionalProperties": False}


def _list_schema(name: str, items: Mapping[str, Any]) -> dict[str, Any]:
    return _object_schema({name: {"type": "array", "items": items}})


def _any_of(*forms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object in one of these forms: strict schemas know no optional members."""
    return {"anyOf": [_object_schema(form) for form in forms]}


_ID: Final = {"id": _STRING}
_CLAIM: Final = {"claim": _STRING}
_CLAIMS: Final = _list_schema("claims", _object_schema({**_CLAIM, **_VERDICT_MEMBERS}))["properties"]
_SLIM_CLAIMS: Final = _list_schema(
    "claims",
    _any_of(
        _PLAINLY_SUPPORTED,
        {**_CLAIM, **_PLAINLY_SUPPORTED},
        {**_CLAIM, **_VERDICT_MEMBERS},
    ),
)["properties"]
VERIFY_SCHEMA: Final[Mapping[str, object]] = _list_schema(
    "sentences", _object_schema({"id": {"type": "integer"}, **_CLAIMS})
)
CHECK_SCHEMA: Final[Mapping[str, object]] = _list_schema("claims", _object_schema({**_ID, **_VERDICT_MEMBERS}))
SLIM_VERIFY_SCHEMA: Final[Mapping[str, object]] = _list_schema(
    "sentences", _object_schema({"id": {"type": "integer"}, **_SLIM_CLAIMS})
)
SLIM_CHECK_SCHEMA: Final[Mapping[str, object]] = _list_schema(
    "claims", _any_of({**_ID, **_PLAINLY_SUPPORTED}, {**_ID, **_VERDICT_MEMBERS})
)
