"""What one kind of query needs of an index: its mapping, what is sent of each chunk, and how it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retrievers.elastic_settings import Flavour


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What answers: `version` is empty where the credentials may not ask for it, and taken for a recent one."""

    flavour: Flavour
    version: tuple[int, ...]

    @property
    def engine(self) -> str:
        """Name and version for a report."""
        name = "OpenSearch" if self.flavour == "opensearch" else "Elasticsearch"
        return f"{name} {'.'.join(map(str, self.version)) or '(version not told)'}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that differs between the kinds of query.

    `properties`: the mapping's. `sources`: the bodies of some chunks, in their order. `search`: the body for a query
    and k. `stated`: what decides the ranking. `settings`: of the index, beside those that every index has.
    `processors`: of the pipeline that each chunk passes, none when empty. `unkept`: fields that the server need not
    give back, as vectors, which only make the stored source larger.
    """

    properties: Mapping[str, Any]
    sources: Callable[[Sequence[Chunk]], list[dict[str, Any]]]
    search: Callable[[str, int], dict[str, Any]]
    stated: Mapping[str, str | int | float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    processors: Sequence[Mapping[str, Any]] = ()
    unkept: Sequence[str] = ()


# Raises InvalidInput where the settings do not fit the chunks or the server.
Planner = Callable[[ServerFacts, Sequence[Chunk]], Plan]
