"""Reads a plain Dockerfile: stages, their instructions, flags, JSON and shell forms; no heredocs, no ONBUILD.

The library for it parses no flags and no stages, and has had no release since 2023.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import PurePosixPath

_FLAG = re.compile(r"--([a-z]+)=(\S+)\s+")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Instruction:
    """`COPY --from=build /a /b` is `COPY`, `{"from": "build"}`, `/a /b`."""

    keyword: str
    flags: Mapping[str, str]
    value: str

    @property
    def words(self) -> list[str]:
        """The value's words; of the JSON form, its strings."""
        return list(json.loads(self.value)) if self.value.startswith("[") else shlex.split(self.value)

    @property
    def pairs(self) -> dict[str, str]:
        """The `key=value` words of ENV, ARG and LABEL; a key alone has an empty value."""
        return {key: value for key, _, value in (word.partition("=") for word in self.words)}


@dataclass
class Stage:
    """From one FROM to the next."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, keyword: str) -> list[Instruction]:
        """Return the instructions of this kind, in order."""
        return [each for each in self.instructions if each.keyword == keyword]

    def last(self, keyword: str) -> Instruction:
        """Return the one that holds."""
        return self.all(keyword)[-1]


def read_stages(text: str) -> list[Stage]:
    """Return the stages, with the defaults of the arguments above the first put into their bases."""
    stages: list[Stage] = []
    defaults: dict[str, str] = {}
    for each in _instructions(text):
        if each.keyword == "FROM":
            base, *alias = substitute(each.value, defaults).split()
            stages.append(Stage(base, alias[1] if alias else str(len(stages))))
        elif stages:
            stages[-1].instructions.append(each)
        else:
            defaults |= each.pairs
    return stages


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with `$NAME` and `${NAME}` replaced; what is not known is empty, as Docker has it."""
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), text)


def select_sent(paths: Sequence[str], ignore: str) -> list[str]:
    """Return those of the paths that a .dockerignore lets into the build; the last line that names one decides."""
    rules = [line.strip() for line in ignore.splitlines() if line.strip() and not line.startswith("#")]
    return [path for path in paths if not _is_ignored(path, rules)]


def _is_ignored(path: str, rules: Sequence[str]) -> bool:
    is_ignored = False
    whole = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
    for rule in rules:
        pattern = rule.removeprefix("!")
        named = (
            PurePosixPath(path).parts
            if pattern.startswith("**/")
            else [each for each in whole if _depth(each, pattern)]
        )
        if any(fnmatch(each, pattern.removeprefix("**/")) for each in named):
            is_ignored = not rule.startswith("!")
    return is_ignored


def _depth(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and path != "."


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for statement in "\n".join(lines).replace("\\\n", " ").splitlines():
        keyword, _, rest = statement.strip().partition(" ")
        if keyword:
            rest, flags = rest.strip(), {}
            while found := _FLAG.match(rest):
                flags[found[1]] = found[2]
                rest = rest[found.end() :]
            yield Instruction(keyword.upper(), flags, rest)
