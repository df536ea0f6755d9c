"""Documents in indexes and what a scripted search server makes of a query: BM25, maxima, phrases, weights, cosines."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
# What the scripted sparse model adds to a text: each word counts for itself, and a little for these.
SYNONYMS = {"plane": "aircraft", "aircraft": "plane", "wing": "aerofoil"}
Source = dict[str, Any]


@dataclass
class Index:
    """An index: its body as it was made, its documents in the order they came, and whether they can be found yet."""

    body: dict[str, Any]
    documents: dict[str, Source] = field(default_factory=dict)
    is_refreshed: bool = False

    @property
    def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["mappings"].get("properties", {})
        return found

    @property
    def setting(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body.get("settings", {}).get("index", {})
        return found


def words(text: str) -> list[str]:
    """Lower-cased words; a Chinese character is one, as the standard analyzer has it."""
    return _WORD.findall(text.lower())


def expanded(text: str) -> dict[str, float]:
    """What the scripted sparse model makes of a text."""
    weights = {word: float(count) for word, count in Counter(words(text)).items()}
    for word in [*weights]:
        if word in SYNONYMS:
            weights.setdefault(SYNONYMS[word], 0.5)
    return weights


def multi_match(clause: Mapping[str, Any], index: Index) -> dict[str, float]:
    """Scores of all documents: maxima over fields, term by term over fields, or of phrases."""
    asked = words(clause["query"])
    fields = [(name, float(boost)) for name, boost in (each.split("^") for each in clause["fields"])]
    tie = clause.get("tie_breaker", 0.0)
    stats = {name: _FieldStats(index, name) for name, _ in fields}
    scores = {}
    for id_ in index.documents:
        if clause["type"] == "cross_fields":
            most = {term: max(stats[name].holders(term) for name, _ in fields) for term in asked}
            each = [[boost * stats[name].score(term, id_, most[term]) for name, boost in fields] for term in asked]
            scores[id_] = sum(_joined(parts, tie) for parts in each)
        elif clause["type"] == "phrase_prefix":
            scores[id_] = _joined([boost * stats[name].phrase(asked, id_) for name, boost in fields], tie)
        else:
            each_field = [boost * sum(stats[name].score(term, id_) for term in asked) for name, boost in fields]
            scores[id_] = _joined(each_field, tie)
        if clause.get("operator") == "and" and not _has_all(
            asked, [stats[name].terms(id_) for name, _ in fields], clause["type"]
        ):
            scores[id_] = 0.0
    return scores


def _has_all(asked: Sequence[str], held: Sequence[Sequence[str]], kind: str) -> bool:
    """Whether one field has every term, or with cross fields all of them together."""
    fields = [[term for terms in held for term in terms]] if kind == "cross_fields" else held
    return any(all(term in terms for term in asked) for terms in fields)


def _joined(scores: Sequence[float], tie: float) -> float:
    return max(scores) + tie * (sum(scores) - max(scores))


class _FieldStats:
    """Terms of one field, and BM25 over them as Lucene has it: without the factor k1 + 1."""

    def __init__(self, index: Index, name: str) -> None:
        similarity = index.setting["similarity"]["default"]
        self._k1, self._b = similarity["k1"], similarity["b"]
        held = {id_: words(source[name]) for id_, source in index.documents.items() if name in source}
        self._words = held
        self._mean = sum(map(len, held.values())) / len(held) if held else 1.0

    def terms(self, id_: str) -> list[str]:
        return self._words.get(id_, [])

    def holders(self, term: str) -> int:
        return sum(term in found for found in self._words.values())

    def score(self, term: str, id_: str, holders: int | None = None) -> float:
        found = self._words.get(id_, [])
        count = found.count(term)
        if not count:
            return 0.0
        holders = holders or self.holders(term)
        rarity = math.log(1 + max(len(self._words) - holders, 0) + 0.5) - math.log(holders + 0.5)
        length = self._k1 * (1 - self._b + self._b * len(found) / self._mean)
        return float(max(rarity, 0.01) * count / (count + length))

    def phrase(self, asked: Sequence[str], id_: str) -> float:
        found = self._words.get(id_, [])
        *first, last = asked
        places = range(len(found) - len(first))
        count = sum(found[at : at + len(first)] == first and found[at + len(first)].startswith(last) for at in places)
        return count / (count + len(found) / self._mean) if count else 0.0


def cosines(index: Index, name: str, query: Sequence[float]) -> dict[str, float]:
    """Scores by cosine, from 0 to 1 as both servers have them."""
    return {
        id_: (1 + sum(map(float.__mul__, source[name], query)) / (math.hypot(*source[name]) * math.hypot(*query))) / 2
        for id_, source in index.documents.items()
    }


def products(index: Index, name: str, query: str) -> dict[str, float]:
    """Scores by the weights of the terms that the query is expanded to."""
    weights = expanded(query)
    return {
        id_: sum(weight * source[name].get(term, 0.0) for term, weight in weights.items())
        for id_, source in index.documents.items()
    }
