"""Languages and prefixes of embedding models, known by their names; of a path or hub id the last part counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath

_ENGLISH = frozenset({"en"})
_CHINESE = frozenset({"en", "zh"})


@dataclass(frozen=True, slots=True)
class ModelPreset:
    """Properties of a model that its files do not say.

    Args:
        languages: that it reads, as `Language` names them; None for all.
        prefix: put before every text. The E5 models want "query: " on both sides where two texts are compared for
            their meaning, and "passage: " only for documents that are searched (their cards, FAQ 1).
    """

    languages: frozenset[str] | None = None
    prefix: str = ""


# By pattern, the first that matches; a name that matches none reads all languages, as far as its tokenizer knows them.
_PRESETS: Sequence[tuple[str, ModelPreset]] = (
    ("multilingual-e5-*-instruct", ModelPreset()),
    ("multilingual-e5-*", ModelPreset(prefix="query: ")),
    ("snowflake-arctic-embed-*-v2*", ModelPreset()),
    ("e5-mistral-*", ModelPreset(_ENGLISH)),
    ("e5-*", ModelPreset(_ENGLISH, prefix="query: ")),
    *((pattern, ModelPreset(_CHINESE)) for pattern in ("bge-*-zh*", "gte-*-zh", "text2vec-*-chinese*", "m3e-*")),
    # Their vocabularies spell other scripts letter by letter, so that few tokens are unknown and none is understood.
    *(
        (pattern, ModelPreset(_ENGLISH))
        for pattern in (
            "all-minilm*", "all-mpnet-base-*", "all-distilroberta-*", "multi-qa-*", "msmarco-*", "paraphrase-minilm-*",
            "paraphrase-mpnet-*", "bge-*-en*", "gte-small", "gte-base", "gte-large", "gte-*-en-*", "mxbai-embed-large*",
            "nomic-embed-text", "nomic-embed-text-v1*", "snowflake-arctic-embed-[xsml]*",
        )
    ),
)  # fmt: skip


def find_preset(model: str) -> ModelPreset:
    """Return the preset of a model by its path, hub id or name (`BAAI/bge-m3`, `all-minilm:latest`)."""
    name = PurePath(model).name.partition(":")[0].casefold()
    return next((preset for pattern, preset in _PRESETS if fnmatchcase(name, pattern)), ModelPreset())
