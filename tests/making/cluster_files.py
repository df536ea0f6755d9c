"""Rows for tests of the cluster room, and results without what differs from run to run."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BRIDGE = "The Marlow Bridge was opened in 1931."


def bridge_rows(count: int, *, named: bool = True) -> list[dict[str, Any]]:
    """Rows that differ in id and answer."""
    ids: list[dict[str, Any]] = [{"custom_id": f"bridge-{number}"} if named else {} for number in range(count)]
    return [
        {**each, "contexts": [BRIDGE, f"Bridge {number} is long."], "answer": f"Bridge {number} was opened in 1931."}
        for number, each in enumerate(ids)
    ]


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    """JSON Lines; a text stands as it is, for lines that are none."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def timeless(line: str | bytes) -> str:
    """A result line, byte for byte, with the seconds of its attempts set to 0."""
    value = json.loads(line)
    for attempt in value.get("result", {}).get("attempts", []):
        attempt["seconds"] = 0
    return json.dumps(value, ensure_ascii=False)
