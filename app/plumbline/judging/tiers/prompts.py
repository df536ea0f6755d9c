"""Prompts as data: one immutable file per version and language, from the checkout or the installed wheel."""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from plumbline.ground.errors import PromptError
from plumbline.judging.text.words import Language

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
