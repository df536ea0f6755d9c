"""The tables of the embedded store."""

from typing import Final

from plumbline.rows.jobs.counting import COUNT_COLUMNS

# A result's key is its job's number and its row: rows of a job lie side by side, in order. `line` is last, so that
# counting reads no
# line. Its tokens and its cost include those of results that it replaced.
_TABLES: Final = """
CREATE TABLE job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, name TEXT,
    options BLOB NOT NULL, max_cost REAL, state TEXT NOT NULL, seq INTEGER NOT NULL, total INTEGER,
    created REAL NOT NULL, started REAL, ended REAL, problem TEXT, damage TEXT, upload TEXT, form TEXT NOT NULL,
    columns TEXT, rows_file TEXT,
    idempotency_key TEXT, fingerprint TEXT NOT NULL);
CREATE UNIQUE INDEX job_key ON job (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_open ON job (number) WHERE state IN ('validating', 'queued', 'running');
CREATE INDEX job_upload ON job (upload) WHERE upload IS NOT NULL;
CREATE TABLE change (
    job INTEGER NOT NULL, seq INTEGER NOT NULL, state TEXT NOT NULL, at REAL NOT NULL, problem TEXT,
    PRIMARY KEY (job, seq)) WITHOUT ROWID;
CREATE TABLE chunk (
    job INTEGER NOT NULL, n INTEGER NOT NULL, first_row INTEGER NOT NULL, rows INTEGER NOT NULL,
    offset INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'free', owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0, lease_until REAL, deaths INTEGER NOT NULL DEFAULT 0,
    under_way TEXT NOT NULL DEFAULT '[]', counted INTEGER NOT NULL DEFAULT 0, @COUNTS@,
    PRIMARY KEY (job, n)) WITHOUT ROWID;
CREATE INDEX chunk_free ON chunk (job, n) WHERE state = 'free';
CREATE INDEX chunk_leased ON chunk (job) WHERE state = 'leased';
CREATE INDEX chunk_begun ON chunk (job, n) WHERE counted = 0 AND fence > 0;
CREATE TABLE result (
    key INTEGER PRIMARY KEY, status TEXT NOT NULL, tier TEXT, degraded INTEGER NOT NULL, calls INTEGER NOT NULL,
    unmetered_calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cost REAL, redo INTEGER NOT NULL DEFAULT 0, line BLOB NOT NULL);
CREATE INDEX result_again ON result (key) WHERE degraded = 1 OR status IN ('failed', 'not_judged');
CREATE TABLE strike (key INTEGER PRIMARY KEY, deaths INTEGER NOT NULL);
CREATE TABLE garbage (job INTEGER PRIMARY KEY);
"""
SCHEMA: Final = _TABLES.replace("@COUNTS@", ", ".join(f"{name} NUMERIC NOT NULL DEFAULT 0" for name in COUNT_COLUMNS))
