"""BM25 on a server: `multi_match` over fields, in three ways."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Retriever
from plumbline.extras.lab.retrievers.elastic_plan import Plan, ServerFacts
from plumbline.extras.lab.retrievers.elastic_settings import ServerSettings
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.value_kinds import shown

# What would mean something else in a field's name or in a list of fields.
_SPECIAL: Final = frozenset('.*^,"\\ ')
Boost = Annotated[float, Field(gt=0, le=1000)]


class _Keyword(ServerSettings):
    fields: Mapping[str, Boost] = Field(
        {}, description="Fields that are searched, and what each counts for; all alike when empty."
    )
    tie_breaker: float = Field(
        0.0, ge=0, le=1, description="What the fields that are not the best one count for: 0 nothing, 1 all."
    )
    analyzer: str = Field(
        "english",
        pattern=r"^[a-z0-9_]+$",
        description="The server's analyzer for all fields: standard, english, cjk ..., or one of a plugin, as smartcn.",
    )
    k1: float = Field(1.2, ge=0, le=100, description="BM25's k1.")
    b: float = Field(0.75, ge=0, le=1, description="BM25's b.")

    def make(self) -> Retriever:
        """The retriever."""
        from plumbline.extras.lab.retrievers.elastic_index import ServerIndex  # noqa: PLC0415 - an HTTP client

        return ServerIndex(self, self.plan)

    def plan(self, _server: ServerFacts, chunks: Sequence[Chunk]) -> Plan:
        """What the index needs; the same on both servers.

        Raises:
            InvalidInput: a field that no chunk has, or that has a name no server takes.
        """
        boosts = self.fields or dict.fromkeys((name for chunk in chunks for name in chunk.fields), 1.0)
        for name in boosts:
            if name.startswith("_") or not _SPECIAL.isdisjoint(name) or not name:
                raise InvalidInput(f"field {shown(name)}: rename it; a server has no plain field of that name")
            if not any(chunk.fields.get(name) for chunk in chunks):
                raise InvalidInput(f"field {shown(name)}: no chunk has text in it")
        named = [f"{name}^{boost:g}" for name, boost in boosts.items()]
        kind = {**self._kind(), "tie_breaker": self.tie_breaker}

        def sources(some: Sequence[Chunk]) -> list[dict[str, Any]]:
            return [{name: chunk.fields[name] for name in boosts if chunk.fields.get(name)} for chunk in some]

        def search(query: str, k: int) -> dict[str, Any]:
            return {
                "query": {"multi_match": {"query": query, "fields": named, **kind}},
                "size": k,
                "_source": False,
                "track_total_hits": False,
            }

        return Plan(
            properties={name: {"type": "text", "analyzer": self.analyzer} for name in boosts},
            sources=sources,
            search=search,
            settings={"similarity": {"default": {"type": "BM25", "k1": self.k1, "b": self.b}}},
            stated={
                "query": str(kind["type"]),
                "fields": " ".join(named),
                "k1": self.k1,
                "b": self.b,
                "analyzer": self.analyzer,
                **{name: value for name, value in kind.items() if name != "type"},
            },
        )

    def _kind(self) -> Mapping[str, str | int | float]:
        raise NotImplementedError


class ElasticFields(_Keyword):
    """Best fields: the field that fits best decides. Cross fields: each term is looked for in all fields as in one."""

    query: Literal["best_fields", "cross_fields"]
    operator: Literal["or", "and"] = Field("or", description="Whether one term must be found, or each.")

    def _kind(self) -> Mapping[str, str | int | float]:
        return {"type": self.query, "operator": self.operator}


class ElasticPhrases(_Keyword):
    """The query as one phrase, whose last word may be the beginning of one; the field that fits best decides."""

    query: Literal["phrase_prefix"]
    slop: int = Field(0, ge=0, le=1000, description="Moves of words that a phrase may need.")
    max_expansions: int = Field(50, ge=1, le=1000, description="Completions of the last word that are tried.")

    def _kind(self) -> Mapping[str, str | int | float]:
        return {"type": self.query, "slop": self.slop, "max_expansions": self.max_expansions}
