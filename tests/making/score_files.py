"""Files for `plumbline score`, and what can be compared of what it writes."""

import json
import random
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plumbline.cli.main import main

_PROSE = (
    "the bridge over river was opened in year by engineer and carried trains across valley until storm damaged its "
    "northern pier after which company rebuilt span with steel girders town council paid half cost while railway"
)
_WORDS = _PROSE.split()
# What a clock says differs from run to run
_SECONDS = re.compile(rb'"seconds":[0-9.e+-]+')


def prose(rng: random.Random, words: int) -> str:
    """A sentence of so many words."""
    return " ".join(rng.choices(_WORDS, k=words)).capitalize() + "."


def sample_row(number: int, *, seed: int = 0, context_words: int = 12) -> dict[str, Any]:
    """A row with two contexts and an answer of two sentences, one out of each: tier lexical passes it."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311
    contexts = [prose(rng, context_words), prose(rng, 12)]
    return {"custom_id": f"q{number}", "contexts": contexts, "answer": " ".join(contexts)}


def write_rows(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    """JSON Lines; a string is a line as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def score(*arguments: object) -> int:
    """The exit code of `plumbline score` in this process, quiet unless told otherwise."""
    return main(["score", *map(str, arguments)])


def score_and_exit(arguments: Sequence[str]) -> None:
    """The command as a process of its own runs it."""
    sys.exit(main(["score", *arguments]))


def comparable(path: Path) -> bytes:
    """The bytes of results, with the seconds of attempts taken out: nothing else may differ between two runs."""
    return _SECONDS.sub(b'"seconds":0', path.read_bytes())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of results."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
