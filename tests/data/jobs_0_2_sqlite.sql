-- The file of jobs of 0.2 (SQLite, user_version 1): jobs that are done, half done, paused, and two not read yet.
BEGIN TRANSACTION;
CREATE TABLE change (
    job INTEGER NOT NULL, seq INTEGER NOT NULL, state text NOT NULL, at REAL NOT NULL, problem text,
    PRIMARY KEY (job, seq)) WITHOUT ROWID;
INSERT INTO "change" VALUES(2,0,'validating',1000000.0,NULL);
INSERT INTO "change" VALUES(2,1,'queued',1000000.0,NULL);
INSERT INTO "change" VALUES(2,2,'running',1000000.0,NULL);
INSERT INTO "change" VALUES(2,3,'completed_with_errors',1000000.0,NULL);
INSERT INTO "change" VALUES(3,0,'validating',1000000.0,NULL);
INSERT INTO "change" VALUES(3,1,'queued',1000000.0,NULL);
INSERT INTO "change" VALUES(3,2,'running',1000000.0,NULL);
INSERT INTO "change" VALUES(4,0,'validating',1000000.0,NULL);
INSERT INTO "change" VALUES(4,1,'queued',1000000.0,NULL);
INSERT INTO "change" VALUES(4,2,'paused',1000000.0,NULL);
INSERT INTO "change" VALUES(5,0,'validating',1000000.0,NULL);
INSERT INTO "change" VALUES(6,0,'validating',1000000.0,NULL);
CREATE TABLE chunk (
    job INTEGER NOT NULL, n INTEGER NOT NULL, first_row INTEGER NOT NULL, rows INTEGER NOT NULL, offset INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0, 
    state text NOT NULL DEFAULT 'free', owner text, fence INTEGER NOT NULL DEFAULT 0, lease_until REAL,
    deaths INTEGER NOT NULL DEFAULT 0, under_way text NOT NULL DEFAULT '[]',
    counted INTEGER NOT NULL DEFAULT 0, judged INTEGER NOT NULL DEFAULT 0, abstained INTEGER NOT NULL DEFAULT 0, empty_answer INTEGER NOT NULL DEFAULT 0, not_judged INTEGER NOT NULL DEFAULT 0, invalid INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, llm INTEGER NOT NULL DEFAULT 0, detector INTEGER NOT NULL DEFAULT 0, embedding INTEGER NOT NULL DEFAULT 0, lexical INTEGER NOT NULL DEFAULT 0, degraded INTEGER NOT NULL DEFAULT 0, passed INTEGER NOT NULL DEFAULT 0, not_passed INTEGER NOT NULL DEFAULT 0, calls INTEGER NOT NULL DEFAULT 0, unmetered_calls INTEGER NOT NULL DEFAULT 0, prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0, cached_tokens INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, n)) WITHOUT ROWID;
INSERT INTO "chunk" VALUES(2,0,0,2,0,62,'done',NULL,1,1000030.0,0,'[]',1,1,0,0,0,0,1,1,0,0,0,0,1,0,2,0,20,0,0,0.02,0);
INSERT INTO "chunk" VALUES(3,0,0,3,0,93,'leased','gone',1,1000030.0,0,'[2]',0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0);
INSERT INTO "chunk" VALUES(4,0,0,1,0,31,'free',NULL,0,NULL,0,'[]',0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0);
INSERT INTO "chunk" VALUES(5,-1,0,0,0,0,'free',NULL,0,NULL,0,'[]',0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0);
INSERT INTO "chunk" VALUES(6,-1,0,0,0,0,'free',NULL,0,NULL,0,'[]',0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0);
CREATE TABLE garbage (job INTEGER PRIMARY KEY);
INSERT INTO "garbage" VALUES(1);
CREATE TABLE job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id text NOT NULL UNIQUE, tenant text NOT NULL, name text,
    options BLOB NOT NULL, max_cost REAL, state text NOT NULL, seq INTEGER NOT NULL, total INTEGER,
    created REAL NOT NULL, started REAL, ended REAL, problem text, damage text,
    upload TEXT, form TEXT NOT NULL, columns TEXT, rows_file TEXT, idempotency_key text, fingerprint text NOT NULL, versions text);
INSERT INTO "job" VALUES(2,'job_done','tenant-1','done',X'7B7D',NULL,'completed_with_errors',3,2,1000000.0,1000000.0,1000000.0,NULL,NULL,NULL,'jsonl',NULL,'job_done.1',NULL,'','{"judge": "a"}');
INSERT INTO "job" VALUES(3,'job_half','tenant-1','half',X'7B7D',NULL,'running',2,3,1000000.0,1000000.0,NULL,NULL,NULL,NULL,'jsonl',NULL,'job_half.1','k','f',NULL);
INSERT INTO "job" VALUES(4,'job_paused','tenant-1','paused',X'7B7D',NULL,'paused',2,1,1000000.0,NULL,NULL,NULL,NULL,NULL,'jsonl',NULL,'job_paused.1',NULL,'',NULL);
INSERT INTO "job" VALUES(5,'job_unread','tenant-1','unread',X'7B7D',NULL,'validating',0,NULL,1000000.0,NULL,NULL,NULL,NULL,'gone.unread','jsonl',NULL,NULL,NULL,'',NULL);
INSERT INTO "job" VALUES(6,'job_unreadable','tenant-1','unreadable',X'7B7D',NULL,'validating',0,NULL,1000000.0,NULL,NULL,NULL,NULL,'gone.unreadable','jsonl',NULL,NULL,NULL,'',NULL);
CREATE TABLE label (job bigint NOT NULL, row_n bigint NOT NULL, person text NOT NULL, label bigint, sentences text NOT NULL, at double precision NOT NULL, PRIMARY KEY (job, row_n, person));
INSERT INTO "label" VALUES(2,0,'ann',0,'[1]',1000000.0);
CREATE TABLE result (
    key INTEGER PRIMARY KEY, status text NOT NULL, tier text, degraded INTEGER NOT NULL, passed INTEGER,
    calls INTEGER NOT NULL,
    unmetered_calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cost REAL, redo INTEGER NOT NULL DEFAULT 0, line BLOB NOT NULL);
INSERT INTO "result" VALUES(4294967296,'judged','llm',0,NULL,1,0,10,0,0,0.01,0,X'7B22726F77223A20302C2022737461747573223A20226A7564676564222C20226465677261646564223A2066616C73652C202274657874223A2022227D');
INSERT INTO "result" VALUES(4294967297,'judged','llm',0,NULL,1,0,10,0,0,0.01,0,X'7B22726F77223A20312C2022737461747573223A20226A7564676564222C20226465677261646564223A2066616C73652C202274657874223A2022227D');
INSERT INTO "result" VALUES(8589934592,'judged','llm',0,1,1,0,10,0,0,0.01,0,X'7B22726F77223A20302C2022737461747573223A20226A7564676564222C20226465677261646564223A2066616C73652C202274657874223A2022227D');
INSERT INTO "result" VALUES(8589934593,'failed',NULL,0,NULL,1,0,10,0,0,0.01,0,X'7B22726F77223A20312C2022737461747573223A20226661696C6564222C20226465677261646564223A2066616C73652C202274657874223A2022227D');
INSERT INTO "result" VALUES(12884901889,'judged','llm',0,NULL,1,0,10,0,0,0.01,0,X'7B22726F77223A20312C2022737461747573223A20226A7564676564222C20226465677261646564223A2066616C73652C202274657874223A2022227D');
CREATE TABLE strike (key INTEGER PRIMARY KEY, deaths INTEGER NOT NULL);
CREATE UNIQUE INDEX job_key ON job (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_open ON job (number) WHERE state IN ('validating', 'queued', 'running');
CREATE INDEX chunk_free ON chunk (job, n) WHERE state = 'free';
CREATE INDEX chunk_leased ON chunk (job) WHERE state = 'leased';
CREATE INDEX chunk_begun ON chunk (job, n) WHERE counted = 0 AND fence > 0;
CREATE INDEX result_again ON result (key) WHERE degraded = 1 OR status IN ('failed', 'not_judged');
CREATE INDEX job_upload ON job (upload) WHERE upload IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('job',6);
PRAGMA application_id = 1347177026;
PRAGMA user_version = 1;
COMMIT;
