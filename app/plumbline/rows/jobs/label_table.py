"""Labels that people give to rows of a job, one of each person to a row, beside the job's tables."""

import json
from typing import Final, NamedTuple

from plumbline.rows.jobs.sql import Sql

# As both databases take it. `label` is NULL for a row that was skipped.
LABEL_TABLE: Final = (
    "CREATE TABLE label (job bigint NOT NULL, row_n bigint NOT NULL, person text NOT NULL, label bigint,"
    " sentences text NOT NULL, at double precision NOT NULL, PRIMARY KEY (job, row_n, person))"
)


class Label(NamedTuple):
    """One person's label of one row: 1 faithful, 0 not, None skipped; `sentences` at fault, counted from 0."""

    row: int
    person: str
    label: int | None
    sentences: tuple[int, ...] = ()
    at: float = 0.0


class LabelTable:
    """Table of labels in one transaction."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def put(self, number: int, label: Label) -> None:
        self._sql.execute(
            "INSERT INTO label VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (job, row_n, person) DO UPDATE"
            " SET label = excluded.label, sentences = excluded.sentences, at = excluded.at",
            (number, label.row, label.person, label.label, json.dumps(label.sentences), self._sql.now()),
        )

    def drop(self, number: int, row: int, person: str) -> None:
        self._sql.execute("DELETE FROM label WHERE job = ? AND row_n = ? AND person = ?", (number, row, person))

    def all(self, number: int, person: str | None) -> list[Label]:
        whose, names = ("", ()) if person is None else (" AND person = ?", (person,))
        found = self._sql.execute(
            f"SELECT row_n, person, label, sentences, at FROM label WHERE job = ?{whose} ORDER BY at, row_n",
            (number, *names),
        )
        return [Label(row, who, label, tuple(json.loads(text)), at) for row, who, label, text, at in found]
