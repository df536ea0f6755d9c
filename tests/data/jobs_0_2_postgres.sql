-- The schema of jobs of 0.2 (PostgreSQL, version 1): jobs that are done, half done and paused.
CREATE TABLE job (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, id text NOT NULL UNIQUE, tenant text NOT NULL, name text,
    options bytea NOT NULL, max_cost double precision, state text NOT NULL, seq bigint NOT NULL, total bigint,
    created double precision NOT NULL, started double precision, ended double precision, problem text, damage text,
    idempotency_key text, fingerprint text NOT NULL, versions text);
CREATE UNIQUE INDEX job_key ON job (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_open ON job (number) WHERE state IN ('validating', 'queued', 'running');
CREATE TABLE change (
    job bigint NOT NULL, seq bigint NOT NULL, state text NOT NULL, at double precision NOT NULL, problem text,
    PRIMARY KEY (job, seq));
CREATE TABLE chunk (
    job bigint NOT NULL, n bigint NOT NULL, first_row bigint NOT NULL, rows bigint NOT NULL, 
    state text NOT NULL DEFAULT 'free', owner text, fence bigint NOT NULL DEFAULT 0, lease_until double precision,
    deaths bigint NOT NULL DEFAULT 0, under_way text NOT NULL DEFAULT '[]',
    counted bigint NOT NULL DEFAULT 0, judged bigint NOT NULL DEFAULT 0, abstained bigint NOT NULL DEFAULT 0, empty_answer bigint NOT NULL DEFAULT 0, not_judged bigint NOT NULL DEFAULT 0, invalid bigint NOT NULL DEFAULT 0, failed bigint NOT NULL DEFAULT 0, llm bigint NOT NULL DEFAULT 0, detector bigint NOT NULL DEFAULT 0, embedding bigint NOT NULL DEFAULT 0, lexical bigint NOT NULL DEFAULT 0, degraded bigint NOT NULL DEFAULT 0, passed bigint NOT NULL DEFAULT 0, not_passed bigint NOT NULL DEFAULT 0, calls bigint NOT NULL DEFAULT 0, unmetered_calls bigint NOT NULL DEFAULT 0, prompt_tokens bigint NOT NULL DEFAULT 0, completion_tokens bigint NOT NULL DEFAULT 0, cached_tokens bigint NOT NULL DEFAULT 0, cost double precision NOT NULL DEFAULT 0, unpriced bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (job, n)) WITH (fillfactor = 70);
CREATE INDEX chunk_free ON chunk (job, n) WHERE state = 'free';
CREATE INDEX chunk_leased ON chunk (job) WHERE state = 'leased';
CREATE INDEX chunk_begun ON chunk (job, n) WHERE counted = 0 AND fence > 0;
CREATE TABLE result (
    key bigint PRIMARY KEY, status text NOT NULL, tier text, degraded bigint NOT NULL, passed bigint,
    calls bigint NOT NULL,
    unmetered_calls bigint NOT NULL, prompt_tokens bigint NOT NULL, completion_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL, cost double precision, redo bigint NOT NULL DEFAULT 0, line bytea NOT NULL);
CREATE INDEX result_again ON result (key) WHERE degraded = 1 OR status IN ('failed', 'not_judged');
CREATE TABLE strike (key bigint PRIMARY KEY, deaths bigint NOT NULL);
CREATE TABLE garbage (job bigint PRIMARY KEY);
CREATE TABLE label (job bigint NOT NULL, row_n bigint NOT NULL, person text NOT NULL, label bigint, sentences text NOT NULL, at double precision NOT NULL, PRIMARY KEY (job, row_n, person));

CREATE INDEX job_of_tenant ON job (tenant, number);
CREATE INDEX chunk_left ON chunk (job) WHERE state <> 'done';
CREATE TABLE chunk_rows (job bigint NOT NULL, n bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (job, n));
ALTER TABLE chunk_rows ALTER data SET STORAGE EXTERNAL;
CREATE TABLE about (what text PRIMARY KEY, value text NOT NULL);
INSERT INTO about VALUES ('version', '1');
INSERT INTO change (job, seq, state, at, problem) VALUES (2, 0, 'validating', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (2, 1, 'queued', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (2, 2, 'running', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (2, 3, 'completed_with_errors', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (3, 0, 'validating', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (3, 1, 'queued', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (3, 2, 'running', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (4, 0, 'validating', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (4, 1, 'queued', 1000000.0, NULL);
INSERT INTO change (job, seq, state, at, problem) VALUES (4, 2, 'paused', 1000000.0, NULL);
INSERT INTO chunk (job, n, first_row, rows, state, owner, fence, lease_until, deaths, under_way, counted, judged, abstained, empty_answer, not_judged, invalid, failed, llm, detector, embedding, lexical, degraded, passed, not_passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, unpriced) VALUES (2, 0, 0, 2, 'done', NULL, 1, 1000030.0, 0, '[]', 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 2, 0, 20, 0, 0, 0.02, 0);
INSERT INTO chunk (job, n, first_row, rows, state, owner, fence, lease_until, deaths, under_way, counted, judged, abstained, empty_answer, not_judged, invalid, failed, llm, detector, embedding, lexical, degraded, passed, not_passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, unpriced) VALUES (3, 0, 0, 3, 'leased', '77', 1, 1000030.0, 0, '[2]', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0);
INSERT INTO chunk (job, n, first_row, rows, state, owner, fence, lease_until, deaths, under_way, counted, judged, abstained, empty_answer, not_judged, invalid, failed, llm, detector, embedding, lexical, degraded, passed, not_passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, unpriced) VALUES (4, 0, 0, 1, 'free', NULL, 0, NULL, 0, '[]', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0);
INSERT INTO garbage (job) VALUES (1);
INSERT INTO job (number, id, tenant, name, options, max_cost, state, seq, total, created, started, ended, problem, damage, idempotency_key, fingerprint, versions) OVERRIDING SYSTEM VALUE VALUES (2, 'job_done', 'tenant-1', 'done', '\x7b7d', NULL, 'completed_with_errors', 3, 2, 1000000.0, 1000000.0, 1000000.0, NULL, NULL, NULL, '', '{"judge": "a"}');
INSERT INTO job (number, id, tenant, name, options, max_cost, state, seq, total, created, started, ended, problem, damage, idempotency_key, fingerprint, versions) OVERRIDING SYSTEM VALUE VALUES (3, 'job_half', 'tenant-1', 'half', '\x7b7d', NULL, 'running', 2, 3, 1000000.0, 1000000.0, NULL, NULL, NULL, 'k', 'f', NULL);
INSERT INTO job (number, id, tenant, name, options, max_cost, state, seq, total, created, started, ended, problem, damage, idempotency_key, fingerprint, versions) OVERRIDING SYSTEM VALUE VALUES (4, 'job_paused', 'tenant-1', 'paused', '\x7b7d', NULL, 'paused', 2, 1, 1000000.0, NULL, NULL, NULL, NULL, NULL, '', NULL);
INSERT INTO label (job, row_n, person, label, sentences, at) VALUES (2, 0, 'ann', 0, '[1]', 1000000.0);
INSERT INTO result (key, status, tier, degraded, passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, redo, line) VALUES (4294967296, 'judged', 'llm', 0, NULL, 1, 0, 10, 0, 0, 0.01, 0, '\x7b22726f77223a20302c2022737461747573223a20226a7564676564222c20226465677261646564223a2066616c73652c202274657874223a2022227d');
INSERT INTO result (key, status, tier, degraded, passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, redo, line) VALUES (4294967297, 'judged', 'llm', 0, NULL, 1, 0, 10, 0, 0, 0.01, 0, '\x7b22726f77223a20312c2022737461747573223a20226a7564676564222c20226465677261646564223a2066616c73652c202274657874223a2022227d');
INSERT INTO result (key, status, tier, degraded, passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, redo, line) VALUES (8589934592, 'judged', 'llm', 0, 1, 1, 0, 10, 0, 0, 0.01, 0, '\x7b22726f77223a20302c2022737461747573223a20226a7564676564222c20226465677261646564223a2066616c73652c202274657874223a2022227d');
INSERT INTO result (key, status, tier, degraded, passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, redo, line) VALUES (8589934593, 'failed', NULL, 0, NULL, 1, 0, 10, 0, 0, 0.01, 0, '\x7b22726f77223a20312c2022737461747573223a20226661696c6564222c20226465677261646564223a2066616c73652c202274657874223a2022227d');
INSERT INTO result (key, status, tier, degraded, passed, calls, unmetered_calls, prompt_tokens, completion_tokens, cached_tokens, cost, redo, line) VALUES (12884901889, 'judged', 'llm', 0, NULL, 1, 0, 10, 0, 0, 0.01, 0, '\x7b22726f77223a20312c2022737461747573223a20226a7564676564222c20226465677261646564223a2066616c73652c202274657874223a2022227d');
INSERT INTO chunk_rows VALUES (2, 0, '\x78018b36d0512a3450d25152d289564a568ad551cacf56d2c92bcdc9d1898e8de58a36044a1be2940600e9521029');
INSERT INTO chunk_rows VALUES (3, 0, '\x78018b36d0512a3450d25152d289564a568ad551cacf56d2c92bcdc9d1898e8de58a36044a1be29636024a1be194060056261840');
INSERT INTO chunk_rows VALUES (4, 0, '\x78018b36d0512a3450d25152d289564a568ad551cacf56d2c92bcdc9d1898e8de50200775f0814');
SELECT setval(pg_get_serial_sequence('job', 'number'), 6);
