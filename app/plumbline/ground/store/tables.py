"""Tables of the store, the same on SQLite and PostgreSQL: jobs with their rows, results and labels.

`versions.py` creates them in a new database. A change here needs a migration in `migrations/versions`.
"""

from typing import Any, Final

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    literal_column,
    text,
)

# A result's key is its job's number and its row: rows of a job lie side by side, in order. So 2^31 rows of one job, and
# 2^31 jobs of one database.
ROW_BITS: Final = 32
# States of a chunk, as literals: with a bound parameter neither database would use the partial indices.
FREE: Final = literal_column("'free'", Text)
LEASED: Final = literal_column("'leased'", Text)
DONE: Final = literal_column("'done'", Text)
# Counts of a finished chunk: rows by status and by tier, decisions, tokens and cost.
COUNT_COLUMNS: Final = (
    "judged", "invalid", "failed", "not_judged", "empty_answer", "abstained",
    "llm", "detector", "embedding", "lexical", "degraded", "passed", "not_passed",
    "calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "cost", "unpriced",
)  # fmt: skip

METADATA: Final = MetaData()
# The only integer type of SQLite that can be the number of a row.
_INTEGER: Final = BigInteger().with_variant(Integer(), "sqlite")


def _number(name: str, **options: Any) -> "Column[int]":
    return Column(name, _INTEGER, nullable=False, **options)


def _counter(name: str, kind: Any = _INTEGER) -> "Column[Any]":
    return Column(name, kind, nullable=False, server_default=text("0"))


VERSION: Final = Table("alembic_version", METADATA, Column("version_num", String(32), primary_key=True))

JOB: Final = Table(
    "job",
    METADATA,
    _number("number", primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text),
    Column("options", LargeBinary, nullable=False),
    Column("max_cost", Double),
    Column("state", Text, nullable=False),
    Column("total", _INTEGER),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("problem", Text),
    # Why the upload could not be read to its end.
    Column("damage", Text),
    Column("idempotency_key", Text),
    Column("fingerprint", Text, nullable=False),
    Column("versions", Text),
)
OPEN_STATES: Final = ("queued", "running")
IS_OPEN: Final = JOB.c.state.in_([literal_column(f"'{state}'") for state in OPEN_STATES])
_HAS_KEY: Final = JOB.c.idempotency_key.is_not(None)
Index("job_key", JOB.c.tenant, JOB.c.idempotency_key, unique=True, sqlite_where=_HAS_KEY, postgresql_where=_HAS_KEY)
Index("job_of_tenant", JOB.c.tenant, JOB.c.number)
Index("job_open", JOB.c.number, sqlite_where=IS_OPEN, postgresql_where=IS_OPEN)

CHUNK: Final = Table(
    "chunk",
    METADATA,
    _number("job", primary_key=True, autoincrement=False),
    _number("n", primary_key=True, autoincrement=False),
    _number("first_row"),
    _number("rows"),
    Column("state", Text, nullable=False, server_default=text("'free'")),
    _counter("fence"),
    Column("lease_until", Double),
    _counter("deaths"),
    Column("under_way", Text, nullable=False, server_default=text("'[]'")),
    _counter("counted"),
    *(_counter(name, Double if name == "cost" else _INTEGER) for name in COUNT_COLUMNS),
    sqlite_with_rowid=False,
    # A chunk is updated with every group of its rows: room for that in its page.
    postgresql_with={"fillfactor": 70},
)
for _name, _columns, _where in (
    ("chunk_free", (CHUNK.c.job, CHUNK.c.n), CHUNK.c.state == FREE),
    ("chunk_leased", (CHUNK.c.job,), CHUNK.c.state == LEASED),
    ("chunk_left", (CHUNK.c.job,), CHUNK.c.state != DONE),
    ("chunk_begun", (CHUNK.c.job, CHUNK.c.n), text("counted = 0 AND fence > 0")),
):
    Index(_name, *_columns, sqlite_where=_where, postgresql_where=_where)

# Rows as they were parsed from the upload, compressed; apart from the chunk, which changes.
CHUNK_ROWS: Final = Table(
    "chunk_rows",
    METADATA,
    _number("job", primary_key=True, autoincrement=False),
    _number("n", primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
_STORED_PLAINLY: Final = DDL("ALTER TABLE chunk_rows ALTER data SET STORAGE EXTERNAL")  # type: ignore[no-untyped-call]
event.listen(CHUNK_ROWS, "after_create", _STORED_PLAINLY.execute_if(dialect="postgresql"))

# `line` is last, so that counting reads no line. Tokens and cost include those of results that this one replaced.
RESULT: Final = Table(
    "result",
    METADATA,
    _number("key", primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("tier", Text),
    _number("degraded"),
    Column("passed", _INTEGER),
    _number("calls"),
    _number("unmetered_calls"),
    _number("prompt_tokens"),
    _number("completion_tokens"),
    _number("cached_tokens"),
    Column("cost", Double),
    _counter("redo"),
    Column("line", LargeBinary, nullable=False),
)
_AGAIN: Final = text("degraded = 1 OR status IN ('failed', 'not_judged')")
Index("result_again", RESULT.c.key, sqlite_where=_AGAIN, postgresql_where=_AGAIN)

# Processes that ended while a row was in flight.
STRIKE: Final = Table("strike", METADATA, _number("key", primary_key=True, autoincrement=False), _number("deaths"))

# Jobs whose upload is being read; their numbers are those of the jobs.
SUBMISSION: Final = Table(
    "submission",
    METADATA,
    Column("job", _INTEGER, Identity(), primary_key=True),
    _counter("until", Double),
    sqlite_autoincrement=True,
)
# Deleted jobs and submissions that were given up, whose rows and results are still to be deleted.
GARBAGE: Final = Table("garbage", METADATA, _number("job", primary_key=True, autoincrement=False))

# `label` is NULL for a row that was skipped.
LABEL: Final = Table(
    "label",
    METADATA,
    _number("job", primary_key=True, autoincrement=False),
    _number("row_n", primary_key=True, autoincrement=False),
    Column("person", Text, primary_key=True, nullable=False),
    Column("label", _INTEGER),
    Column("sentences", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("note", Text, nullable=False, server_default=text("''")),
)
