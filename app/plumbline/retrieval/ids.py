"""Rules that map the id of a chunk, as a retriever writes it, to the id of the judged document."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.conventions import CHOICES, Conventions
from plumbline.retrieval.measure import suggest
from plumbline.retrieval.run import Qrels, Run

IdRule = Callable[[str], str]


ID_RULES: Final = CHOICES["id_rule"]
_MAX_PATTERN: Final = 1_000
# re2's memory per pattern; its default is 8 MiB, and no id needs that.
_MAX_PATTERN_BYTES: Final = 1024 * 1024
_CHUNK: Final = re.compile(
    r"(?:::chunk[-_]?[0-9]+|#(?:chunk[-_]?)?[0-9]+(?:_[0-9]+)*|[-_:](?:chunk|part|分块|切片|块|段)[-_]?[0-9]+)\Z"
)
# `doc1_3` and `doc1:3`, but not `doc_3`
_NUMBERED: Final = re.compile(r"(?<=[0-9])[_:][0-9]+\Z")
_MOST_LOOKED_AT: Final = 1_000
# A search in one id holds the interpreter: a millisecond for this many characters.
_LONGEST_LOOKED_AT: Final = 10_000
# Grades of a scale that people judge by
_MOST_GRADES: Final = 6
_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = re.compile(rf"(?<!{_HEX}){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?!{_HEX})")


def build_id_rule(name: str, *, pattern: str | None = None) -> IdRule:
    """Return a function from an id to the id that is compared; an id that does not match is kept unchanged.

    - `none`: every id as it is.
    - `strip_chunk`: without one suffix `::chunk-3`, `#4`, `#0_0`, `#chunk-3`, `_chunk_3`, `-part-3`, `_分块_3` or the
      like; `select_id_rule` also strips the number of `doc1_3` and `doc1:3` where that gives judged documents.
    - `urn_uuid`: the first UUID in the id, in lower case, with or without `urn:uuid:` and angle brackets; also out of
      a list in a string, as long as it holds one (`find_uuids` reads longer ones).
    - `regex`: the one group of `pattern`, found anywhere in the id, in RE2's syntax (linear time, no backreferences or
      lookaround). A group that is empty or takes no part keeps the id as it is.

    It counts nothing: compare input and output to see which ids changed.

    Raises InvalidInput: an unknown name, a pattern without `regex` or the reverse, a pattern that RE2 refuses, with
    other than one group or of more than 1,000 characters; from the function: a list of several UUIDs.
    """
    if name not in ID_RULES:
        raise InvalidInput(CodedText("id_rule_unknown", name=name[:40], hint=suggest(name, ID_RULES)))
    if name == "regex":
        return _regex_rule(pattern)
    if pattern is not None:
        raise InvalidInput(CodedText("id_rule_without_pattern", name=name))
    if name == "urn_uuid":
        return _urn_uuid
    return str if name == "none" else lambda doc_id: _CHUNK.sub("", doc_id) or doc_id


def select_id_rule(conventions: Conventions, *, qrels: Qrels | None = None, run: Run | None = None) -> IdRule | None:
    """Return the rule that the conventions name; None for `none`.

    With `qrels` and `run`, `strip_chunk` also makes `doc1_3` the document `doc1` where that is judged and it is not.
    """
    if conventions.id_rule == "none":
        return None
    rule = build_id_rule(conventions.id_rule, pattern=conventions.id_pattern)
    if conventions.id_rule != "strip_chunk" or qrels is None or run is None:
        return rule
    judged = frozenset(doc_id for grades in qrels.values() for doc_id in grades)
    plain = frozenset(map(rule, judged))
    if not any(
        _NUMBERED.sub("", doc_id) in plain
        for doc_id in _retrieved_ids(run)
        if _NUMBERED.search(doc_id) and doc_id not in plain
    ):
        return rule

    def strip(doc_id: str) -> str:
        stripped = rule(doc_id)
        return stripped if stripped in plain else _NUMBERED.sub("", stripped)

    return strip


def suggest_cause(qrels: Qrels, run: Run) -> str | None:
    """Return a likely cause of a run and judgments without a common document: swapped columns, an id rule; or None."""
    documents = {doc_id for grades in qrels.values() for doc_id in grades}
    if len(documents) <= _MOST_GRADES and all(doc_id.lstrip("-").isdigit() for doc_id in documents):
        return CodedText("grades_are_documents", one=quoted(min(documents, default="")))
    ranks = [sorted(results) for results in islice(run.results.values(), _MOST_LOOKED_AT)]
    if all(found == sorted(map(str, range(1, len(found) + 1))) for found in ranks):
        return CodedText("ranks_are_documents")
    judged = frozenset(_of_usual_length(doc_id for grades in qrels.values() for doc_id in grades))
    uuids = frozenset(uuid for doc_id in judged for uuid in find_uuids(doc_id))
    for doc_id in islice(_of_usual_length(_retrieved_ids(run)), _MOST_LOOKED_AT):
        if not judged.isdisjoint((_CHUNK.sub("", doc_id), _NUMBERED.sub("", doc_id))):
            return CodedText("id_is_chunk", id=doc_id[:80])
        if not uuids.isdisjoint(find_uuids(doc_id)):
            return CodedText("id_holds_uuid", id=doc_id[:80])
    return None


def _retrieved_ids(run: Run) -> Iterator[str]:
    return (doc_id for results in run.results.values() for doc_id in results)


def _of_usual_length(ids: Iterable[str]) -> Iterator[str]:
    return (doc_id for doc_id in ids if len(doc_id) <= _LONGEST_LOOKED_AT)


def find_uuids(text: str) -> tuple[str, ...]:
    """Return every distinct UUID of a text in lower case, in order: seed 3's gold column is a list in a string."""
    return tuple(dict.fromkeys(match[0].lower() for match in _UUID.finditer(text)))


def _urn_uuid(doc_id: str) -> str:
    found = find_uuids(doc_id)
    if len(found) > 1 and doc_id.lstrip().startswith("["):
        raise InvalidInput(CodedText("several_uuids", start=doc_id[:40], count=len(found)))
    return found[0] if found else doc_id


def _regex_rule(pattern: str | None) -> IdRule:
    if not pattern:
        raise InvalidInput(CodedText("pattern_needed"))
    if len(pattern) > _MAX_PATTERN:
        raise InvalidInput(CodedText("pattern_too_long", count=len(pattern), limit=_MAX_PATTERN))
    try:
        # here, not above: platforms without a wheel keep the other rules
        import re2  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(CodedText("re2_needed")) from None
    options = re2.Options()
    options.max_mem = _MAX_PATTERN_BYTES
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "refused"
        raise InvalidInput(CodedText("pattern_wrong", reason=reason[:200])) from None
    except UnicodeEncodeError:
        raise InvalidInput(CodedText("pattern_no_text")) from None
    if compiled.groups != 1:
        raise InvalidInput(CodedText("pattern_groups", count=compiled.groups))

    def apply(doc_id: str) -> str:
        found = compiled.search(doc_id)
        group: str | None = found.group(1) if found else None
        return group or doc_id

    return apply
