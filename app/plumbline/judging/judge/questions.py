"""Requests to a judge: a prompt's file, the sample as numbered data between marks, and the schema of the reply.

Sentences and contexts count from 1 here; `Questions._build` alone puts the ids of the request in their place.
"""

import hashlib
import hmac
import json
import re
import secrets
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

from plumbline.judging.judge.context_windows import Piece, Window
from plumbline.judging.judge.controls import Control
from plumbline.judging.judge.evidence.verdict_rules import is_unlike
from plumbline.judging.judge.probes import AskedProbes, object_schema, reference_sentences, select_compared_claims
from plumbline.judging.ports.decisions import DecisionQuestion, DecisionRequest
from plumbline.judging.ports.exchange import ChatRequest
from plumbline.judging.ports.numbering import Numbering
from plumbline.judging.text.obfuscation import remove_hidden
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.text.words import Language

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


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
    def label(self) -> str:
        return f"{self.name}/{self.version}.{self.language}"

    def render_user(self, **values: str) -> str:
        """Fill in the user message, in one pass: a placeholder inside a value stays as it is."""
        return _PLACEHOLDER.sub(lambda found: values[found.group(1)], self.user)


def read_prompts(name: str, version: str) -> dict[Language, Prompt]:
    """Return the prompts of one name and version; answers in other languages are judged with the English one."""
    packaged = files("plumbline").joinpath("_prompts")
    folder = packaged if packaged.is_dir() else Path(__file__).parents[4] / "prompts"

    def read(language: str) -> Prompt:
        raw = folder.joinpath(name, f"{version}.{language}.toml").read_bytes()
        texts = tomllib.loads(raw.decode())
        parts = {part: text.strip() for part, text in texts.get("parts", {}).items()}
        digest = hashlib.sha256(raw).hexdigest()
        return Prompt(name, version, language, texts["system"].strip(), texts["user"].strip(), digest, parts)

    english, chinese = read("en"), read("zh")
    return {"en": english, "zh": chinese, "other": english}


@dataclass(frozen=True, slots=True)
class JudgePrompts:
    """Prompts in one language: one makes claims and judges them, one judges given claims, one asks for metrics.

    `decide` holds the questions to decision models.
    """

    verify: Prompt
    check: Prompt
    metrics: Prompt
    decide: Prompt


# By the language of the sample.
Prompts = Mapping[Language, JudgePrompts]
PROMPT_VERSION: Final = "v4"


def load_prompts() -> Prompts:
    verify, check, metrics = (
        read_prompts(name, PROMPT_VERSION) for name in ("verify_claims", "check_claims", "ask_metrics")
    )
    decide = read_prompts("decide_claims", "v1")
    return {each: JudgePrompts(verify[each], check[each], metrics[each], decide[each]) for each in verify}


# From the data between the marks to a mark that no text in there can know.
Mark = Callable[[str], str]

# A reply repeats the mark, and is paid for by the token. No text of a sample can hold it but by chance.
_MARK_BYTES = 4
# Sentences before the first that is judged, for the pronouns in it.
_LEAD_SENTENCES = 2
_MAX_SHOWN_SENTENCES = 200


def random_mark(_: str) -> str:
    return secrets.token_hex(_MARK_BYTES)


def keyed_mark(secret: bytes) -> Mark:
    """Return a function that marks the same data alike, for repeatable requests; unpredictable without the secret."""

    def mark(data: str) -> str:
        return hmac.digest(secret, data.encode("utf-8", "surrogatepass"), "sha256")[:_MARK_BYTES].hex()

    return mark


NO_PASSAGE: Final = "none"
_DECIDED: Final = (Verdict.SUPPORTED.value, Verdict.CONTRADICTED.value, Verdict.NOT_MENTIONED.value)
# As OpenAI publishes it; with more contexts the place is found by code alone.
_MOST_CHOICES: Final = 255


def asks_for_passages(sample: SegmentedSample) -> bool:
    """Return True if a decision model is asked for the passage of a sentence: where there are several."""
    return len(sample.source.contexts) > 1


@dataclass(frozen=True, slots=True)
class Questions:
    """Requests about one sample, with room for `max_output_tokens` in each reply."""

    sample: SegmentedSample
    prompts: JudgePrompts
    max_output_tokens: int
    mark: Mark = random_mark

    def on_sentences(
        self,
        window: Window,
        batch: Mapping[int, int],
        *,
        controls: Mapping[int, Control] = MappingProxyType({}),
        probes: AskedProbes = (),
    ) -> ChatRequest:
        """Build a request for the claims of sentences and the verdicts on them; `batch` has their numbers by position.

        `controls` by number stand behind the sentences; with `probes`, which are asked in the same reply,
        they are statements of their own, a sentence among them: no probe may take them for the answer's.
        """
        first, last = min(batch), max(batch)
        answer = self._sentences(range(max(0, first - _LEAD_SENTENCES), last + 1), batch)
        extra = [{"id": number, "text": remove_hidden(control.text)} for number, control in controls.items()]
        if probes and extra:
            data = {
                "answer": answer,
                "statements": [*(each for each in answer if each.get("id") == batch[first]), *extra],
            }
        else:
            data = {"answer": [*answer, *extra]}
        request = self._build(
            self.prompts.verify,
            {**self._surroundings(window), **data},
            _VERIFY_SCHEMA,
            verdicts=len(batch) + len(controls) + _count(probes),
            ids={"id": (*batch.values(), *controls), **_probe_ids(probes)},
        )
        if not probes:
            return request
        parts = self.prompts.metrics.parts
        instructions = (probe.instructions(parts) for probe, _ in probes)
        return replace(
            request,
            system="\n".join((request.system, "", parts["beside"], *instructions)),
            user="\n".join((request.user, *([parts["statements"]] if extra else []), parts["reminder"])),
            schema=_reply_schema({**_VERIFY_LISTS, **_probe_lists(probes)}),
        )

    def on_claims(
        self,
        window: Window,
        claims: Sequence[Claim],
        *,
        doubts: Mapping[str, str] = MappingProxyType({}),
        temperature: float | None = None,
    ) -> ChatRequest:
        """Build a request for verdicts on claims; `doubts` by claim id say what a check found, for a second look."""
        data = {
            **self._surroundings(window),
            "answer": self._sentences_around(claims)
            # Controls stand behind the last sentence.
            + [
                {"id": claim.sentence + 1, "text": remove_hidden(claim.text)}
                for claim in claims
                if claim.sentence >= len(self.sample.sentences)
            ],
            "claims": [
                {
                    "id": claim.id,
                    "sentence": claim.sentence + 1,
                    "text": remove_hidden(claim.text),
                    **({"doubt": doubts[claim.id]} if claim.id in doubts else {}),
                }
                for claim in claims
            ],
        }
        request = self._build(
            self.prompts.check,
            data,
            _CHECK_SCHEMA,
            verdicts=len(claims),
            ids={"id": [claim.id for claim in claims]},
        )
        return replace(request, temperature=temperature)

    def on_decisions(
        self,
        window: Window,
        claims: Sequence[Claim],
        controls: Sequence[Claim],
        others: Mapping[tuple[str, str], tuple[str, Mapping[str, str]]] = MappingProxyType({}),
    ) -> tuple[DecisionRequest, dict[str, tuple[str, str]]]:
        """Build the questions for the verdicts on claims and the passages that decide them, on controls, and others.

        A statement stands in its questions: nothing tells a control from a sentence of the answer. With the request
        comes what each question, by its name, is about: the claim's id, and `verdict` or `passage`.
        """
        prompt, says = self.prompts.decide, self.prompts.decide.parts
        contexts = [{"id": f"c{piece.number}", "text": remove_hidden(piece.text)} for piece in window]
        rest = {"question": self._surroundings(())["question"], "answer": self._sentences_around(claims)}
        mark = self.mark(_json({"contexts": contexts, **rest, "claims": [each.text for each in (*claims, *controls)]}))
        verdicts = {each: says[each] for each in _DECIDED}
        passages = {**{each["id"]: "" for each in contexts}, NO_PASSAGE: says["none"]}
        has_passages = asks_for_passages(self.sample) and len(passages) <= _MOST_CHOICES
        asked: list[DecisionQuestion] = []
        places: dict[str, tuple[str, str]] = {}
        for claim in (*claims, *controls):
            statement = prompt.render_user(statement=json.dumps(remove_hidden(claim.text), ensure_ascii=False))
            kinds = {"verdict": verdicts, **({"passage": passages} if has_passages and claim not in controls else {})}
            for kind, choices in kinds.items():
                asked.append(DecisionQuestion(f"{mark}-{len(asked)}", f"{statement}\n{says[kind]}", choices))
                places[asked[-1].name] = claim.id, kind
        for place, (instructions, values) in others.items():
            asked.append(DecisionQuestion(f"{mark}-{len(asked)}", instructions, values))
            places[asked[-1].name] = place
        Random(mark).shuffle(asked)  # noqa: S311 - no secret
        return DecisionRequest(prompt.system, contexts, rest, tuple(asked)), places

    def on_probes(self, window: Window, probes: AskedProbes, claims: Sequence[Claim]) -> ChatRequest:
        """Build a request for the verdicts of probes alone, with the data that they need."""
        shown = {name for probe, _ in probes for name in probe.shows}
        wanted = {each for probe, ids in probes if probe.about == "context" for each in ids}
        needs_all = any("contexts" in probe.shows and probe.about != "context" for probe, _ in probes)
        pieces = [piece for piece in window if needs_all or str(piece.number) in wanted]
        sentences, checkable = self.sample.sentences, self.sample.checkable
        number_by_position = {position: number for number, position in enumerate(checkable, start=1)}
        source = self.sample.source
        if all(probe.needs_reference for probe, _ in probes):
            pieces = [piece for piece in pieces if not is_unlike(source.reference or "", [piece.text])]
        data = {
            **self._surroundings(pieces),
            "reference": [
                {"id": int(number), "text": remove_hidden(text)}
                for number, text in reference_sentences(source.reference).items()
            ],
            "answer": self._sentences(range(len(sentences)), number_by_position),
            "claims": [
                # Most claims are sentences, which need not be shown twice.
                {"id": each.id, "sentence": number_by_position[each.sentence]}
                if "answer" in shown and each.text == sentences[each.sentence].text
                else {"id": each.id, "text": remove_hidden(each.text)}
                for each in select_compared_claims(claims)
            ],
        }
        prompt = self.prompts.metrics
        instructions = (probe.instructions(prompt.parts) for probe, _ in probes)
        return self._build(
            replace(prompt, system="\n".join((prompt.system, *instructions))),
            {name: value for name, value in data.items() if name in shown},
            _reply_schema(_probe_lists(probes)),
            verdicts=_count(probes),
            ids=_probe_ids(probes),
        )

    def _sentences_around(self, claims: Sequence[Claim]) -> list[dict[str, object]]:
        """Return the sentences of the answer, of a long one those around the claims alone."""
        positions = range(len(self.sample.sentences))
        if len(positions) > _MAX_SHOWN_SENTENCES and claims:
            named = [claim.sentence for claim in claims]
            positions = positions[max(0, min(named) - _LEAD_SENTENCES) : max(named) + 1]
        return self._sentences(positions, {position: position + 1 for position in positions})

    def _sentences(self, positions: Iterable[int], numbers: Mapping[int, int]) -> list[dict[str, object]]:
        """Return the sentences at these positions, but for markup, with the numbers that they have."""
        sentences = self.sample.sentences
        return [
            {**({"id": numbers[at]} if at in numbers else {}), "text": remove_hidden(sentences[at].text)}
            for at in positions
            if sentences[at].kind != "markup"
        ]

    def _surroundings(self, window: Sequence[Piece]) -> dict[str, object]:
        # Contexts first, as providers cache the common beginning of requests.
        contexts = [{"id": piece.number, "text": remove_hidden(piece.text)} for piece in window]
        return {"contexts": contexts, "question": remove_hidden(self.sample.source.asked)}

    def _build(
        self,
        prompt: Prompt,
        data: Mapping[str, object],
        schema: Mapping[str, object],
        *,
        verdicts: int,
        ids: Mapping[str, Sequence[int | str]],
    ) -> ChatRequest:
        """Put the ids of the request in place of our numbers, and the data between marks."""
        marker = self.mark(_json(data))
        items = (item for items in data.values() if isinstance(items, list) for item in items)
        numbering = Numbering.draw(marker, items)
        shown = {
            name: [numbering.show(item) for item in value] if isinstance(value, list) else value
            for name, value in data.items()
        }
        return ChatRequest(
            system=prompt.system,
            user=prompt.render_user(marker=marker, data=_json(shown)),
            schema_name=prompt.name,
            schema=schema,
            max_output_tokens=self.max_output_tokens,
            verdicts=verdicts,
            ids={"mark": [marker]}
            | {name: [numbering.shown_id(each) for each in numbers] for name, numbers in ids.items()},
            numbering=numbering,
        )


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


def _json(data: Mapping[str, object]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def _reply_schema(lists: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a reply: the request's mark, then these lists."""
    return object_schema({"mark": _STRING, **lists})


def _items_schema(item_id: Mapping[str, Any], verdicts: Sequence[Verdict], *, is_split: bool) -> dict[str, Any]:
    """Return the schema of a list of verdicts; `is_split`: items may say of which part of a sentence they are.

    It has a form for each choice of members, since strict schemas know no optional ones.
    """
    supported = {"quotes": _STRINGS, "verdict": {"type": "string", "enum": [Verdict.SUPPORTED.value]}}
    explained = {
        "quotes": _STRINGS,
        "reason": _STRING,
        "verdict": {"type": "string", "enum": [each.value for each in verdicts]},
    }
    about: list[dict[str, Any]] = [{"id": item_id}, *([{"id": item_id, "claim": _STRING}] if is_split else [])]
    forms = [object_schema({**each, **form}) for each in about for form in (supported, explained)]
    return {"type": "array", "items": {"anyOf": forms}}


_STRING: Final = {"type": "string"}
_STRINGS: Final = {"type": "array", "items": _STRING}
# A sentence that says more than the contexts is split; a claim cannot be.
_VERIFY_LISTS: Final = {
    "sentences": _items_schema(
        {"type": "integer"}, [each for each in Verdict if each is not Verdict.PARTIAL], is_split=True
    )
}
_VERIFY_SCHEMA: Final = _reply_schema(_VERIFY_LISTS)
_CHECK_SCHEMA: Final = _reply_schema({"claims": _items_schema(_STRING, list(Verdict), is_split=False)})
