"""The tables of the store in SQLite; `PRAGMA user_version` says of which version a file is.

Table and column names are those of HUD's ClickHouse table `default.crcr_workflow_job`. Times are ISO-8601
text in UTC with microseconds, empty where HUD has its zero time; `id` is ours and names a page. A job that
says it ended before it began took no time, and pulls no average below zero.
"""

from __future__ import annotations

JOBS = """
CREATE TABLE crcr_workflow_job (
    id INTEGER PRIMARY KEY,
    dynamoKey TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL DEFAULT '',
    downstream_repo TEXT NOT NULL DEFAULT '',
    upstream_repo TEXT NOT NULL DEFAULT '',
    pr_number INTEGER NOT NULL DEFAULT 0,
    pytorch_head_sha TEXT NOT NULL DEFAULT '',
    delivery_id TEXT NOT NULL DEFAULT '',
    workflow_run_url TEXT NOT NULL DEFAULT '',
    workflow_name TEXT NOT NULL DEFAULT '',
    job_name TEXT NOT NULL DEFAULT '',
    check_run_id TEXT NOT NULL DEFAULT '',
    run_id TEXT NOT NULL DEFAULT '',
    run_attempt INTEGER NOT NULL DEFAULT 1,
    conclusion TEXT NOT NULL DEFAULT '',
    queue_time REAL,
    execution_time REAL,
    started_at TEXT NOT NULL DEFAULT '',
    completed_at TEXT NOT NULL DEFAULT '',
    total_tests INTEGER NOT NULL DEFAULT 0,
    passed_tests INTEGER NOT NULL DEFAULT 0,
    failed_tests INTEGER NOT NULL DEFAULT 0,
    skipped_tests INTEGER NOT NULL DEFAULT 0,
    failed_tests_json TEXT NOT NULL DEFAULT '',
    artifact_url TEXT NOT NULL DEFAULT '',
    environment TEXT NOT NULL DEFAULT '',
    downstream_repo_level TEXT NOT NULL DEFAULT '',
    event_type TEXT NOT NULL DEFAULT 'pull_request',
    job_id INTEGER NOT NULL DEFAULT -1,
    _inserted_at TEXT NOT NULL DEFAULT '',
    repository_full_name TEXT GENERATED ALWAYS AS (downstream_repo) VIRTUAL,
    duration_seconds REAL GENERATED ALWAYS AS (
        CASE WHEN started_at = '' OR completed_at = '' THEN 0
        ELSE max(0.0, round((julianday(completed_at) - julianday(started_at)) * 86400, 3)) END
    ) VIRTUAL
)
"""

STATES = """
CREATE TABLE callback_state (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('DISPATCHED', 'IN_PROGRESS', 'COMPLETED')),
    at REAL NOT NULL
) WITHOUT ROWID
"""

# What HUD's contract has no column for: what a job says of itself under `payload.spyre_ci`. Empty or NULL
# where a job does not say; seconds are those of tests, one after the other.
DETAILS = """
CREATE TABLE job_detail (
    dynamoKey TEXT PRIMARY KEY,
    run TEXT NOT NULL DEFAULT '',
    lane TEXT NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    device TEXT NOT NULL DEFAULT '',
    pytorch TEXT NOT NULL DEFAULT '',
    checkout TEXT NOT NULL DEFAULT '',
    stage INTEGER,
    percent REAL,
    exit_code INTEGER,
    cards INTEGER,
    in_scope INTEGER,
    selected INTEGER,
    ran INTEGER,
    passed INTEGER,
    in_scope_seconds REAL,
    selected_seconds REAL,
    ran_seconds REAL,
    passed_seconds REAL,
    first_failure_seconds REAL
) WITHOUT ROWID
"""

# Keys as in PyTorch's own uploads; child elements as JSON, '' where there is none. `test_key` is the hash of
# `test_id` and `place` (see ci.store.identity), whose index serves a test's history.
TESTS = """
CREATE TABLE test_run (
    id INTEGER PRIMARY KEY,
    workflow_id INTEGER NOT NULL,
    workflow_run_attempt INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    invoking_file TEXT NOT NULL,
    file TEXT NOT NULL,
    classname TEXT NOT NULL,
    name TEXT NOT NULL,
    line INTEGER,
    time REAL NOT NULL,
    failure TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    skipped TEXT NOT NULL DEFAULT '',
    rerun TEXT NOT NULL DEFAULT '',
    system_out TEXT NOT NULL DEFAULT '',
    system_err TEXT NOT NULL DEFAULT '',
    properties TEXT NOT NULL DEFAULT '',
    test_id TEXT NOT NULL,
    test_key INTEGER NOT NULL,
    place INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    cause TEXT NOT NULL DEFAULT '',
    card TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 1,
    message TEXT NOT NULL DEFAULT '',
    upload_id INTEGER NOT NULL
)
"""

SUMMARIES = """
CREATE TABLE test_run_summary (
    workflow_id INTEGER NOT NULL,
    workflow_run_attempt INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    invoking_file TEXT NOT NULL,
    file TEXT NOT NULL,
    classname TEXT NOT NULL,
    tests INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    time REAL NOT NULL,
    PRIMARY KEY (workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname)
) WITHOUT ROWID
"""

# Made of the rows in the transaction that brings them: pages never count rows one by one.
CARDS = """
CREATE TABLE job_card (
    workflow_id INTEGER NOT NULL,
    workflow_run_attempt INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    card TEXT NOT NULL,
    verdict TEXT NOT NULL,
    tests INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (workflow_id, workflow_run_attempt, job_id, card, verdict)
) WITHOUT ROWID
"""

VERDICTS = """
CREATE VIEW job_verdict AS
SELECT workflow_id, workflow_run_attempt, job_id, verdict, sum(tests) AS tests, sum(seconds) AS seconds
FROM job_card GROUP BY workflow_id, workflow_run_attempt, job_id, verdict
"""

# One file of rows. Its rows belong to it: the same bytes sent again change nothing, others under its name
# take their place, once all of them are there: until then `done` is 0. `stored` is counted in the tables.
UPLOADS = """
CREATE TABLE upload (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow_id INTEGER NOT NULL,
    workflow_run_attempt INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    sent INTEGER NOT NULL,
    stored INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    at REAL NOT NULL,
    UNIQUE (workflow_id, workflow_run_attempt, job_id, kind, name, done)
)
"""

# A re-run replaces the attempt before: one definition, used by every page and every route, and asked for each
# row by an index; with the numbers that rows of tests have.
JOBS_RANKED = """
CREATE VIEW crcr_workflow_job_ranked AS
SELECT j.*, CAST(j.run_id AS BIGINT) AS workflow_id, j.run_attempt AS workflow_run_attempt,
    EXISTS (
        SELECT 1 FROM crcr_workflow_job AS k
        WHERE k.delivery_id = j.delivery_id AND k.run_id = j.run_id AND k.job_name = j.job_name
            AND k.workflow_name = j.workflow_name AND k.downstream_repo = j.downstream_repo
            AND k.run_attempt > j.run_attempt
    ) AS superseded
FROM crcr_workflow_job AS j
"""

# Since when a test has a problem is asked of a whole history; its problems are few, so this stays small. A
# query uses it where it has the very same condition.
PROBLEM = "verdict IN ('failed', 'hardware', 'infrastructure', 'not_run', 'flaky', 'xpassed')"
PROBLEMS_OF_TEST = f"""
CREATE INDEX test_problem ON test_run (test_key, verdict, workflow_id, workflow_run_attempt, job_id)
WHERE {PROBLEM}
"""

# What a comparison and an order by time read of each test of a job, beside the rows, which are wide. In the
# order of `id`, so that a new row always goes to a job's end, which costs an upload the least.
TESTS_OF_JOB = """
CREATE INDEX test_of_job ON test_run (
    workflow_id, workflow_run_attempt, job_id, id, test_key, verdict, time, upload_id
)
"""

# What pages and routes read: rows of a file that is not whole yet, or never will be, are nobody's to see.
SETTLED = """
CREATE VIEW settled_test_run AS
SELECT * FROM test_run WHERE upload_id NOT IN (SELECT id FROM upload WHERE NOT done)
"""
FAILED = """
CREATE VIEW failed_test_runs AS
SELECT * FROM settled_test_run WHERE failure != '' OR error != '' OR rerun != ''
"""

# Jobs whose copy elsewhere is older than they are, or which are gone; `version` grows with each change, so
# that one made while it is copied is copied again.
TO_COPY = """
CREATE TABLE job_to_copy (dynamoKey TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID
"""
_CHANGED = """
CREATE TRIGGER {table}_{event}_copied AFTER {event} ON {table} BEGIN
    INSERT INTO job_to_copy VALUES ({row}.dynamoKey, 1)
    ON CONFLICT (dynamoKey) DO UPDATE SET version = version + 1;
END
"""
CHANGES = tuple(
    _CHANGED.format(table=table, event=event, row="OLD" if event == "DELETE" else "NEW")
    for table in ("crcr_workflow_job", "job_detail")
    for event in ("INSERT", "UPDATE", "DELETE")
)

# When a chore was last done by whoever has no thread for chores, in seconds since the epoch.
CHORES = "CREATE TABLE chore (name TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID"

# What files took to set up, and what was measured elsewhere; names are as `ci.store.names` keeps them.
SETUPS = """
CREATE TABLE file_setup (
    workflow_id INTEGER NOT NULL,
    workflow_run_attempt INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    file TEXT NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (workflow_id, workflow_run_attempt, job_id, file)
) WITHOUT ROWID
"""
IMPORTED_TESTS = """
CREATE TABLE imported_test (
    device TEXT NOT NULL, name TEXT NOT NULL, seconds REAL NOT NULL, spread REAL, PRIMARY KEY (device, name)
) WITHOUT ROWID
"""
IMPORTED_SETUPS = """
CREATE TABLE imported_setup (
    device TEXT NOT NULL, file TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (device, file)
) WITHOUT ROWID
"""
IMPORTED_CLASSES = """
CREATE TABLE imported_class (name TEXT PRIMARY KEY, seconds REAL NOT NULL) WITHOUT ROWID
"""

SCHEMA = (
    JOBS,
    "CREATE INDEX job_order ON crcr_workflow_job (downstream_repo, delivery_id, dynamoKey)",
    "CREATE INDEX job_started ON crcr_workflow_job (started_at)",
    "CREATE INDEX job_number ON crcr_workflow_job (job_id)",
    "CREATE INDEX job_attempts ON crcr_workflow_job (delivery_id, run_id, job_name, run_attempt)",
    JOBS_RANKED,
    STATES,
    "CREATE INDEX state_age ON callback_state (at)",
    DETAILS,
    TESTS,
    "CREATE INDEX test_history ON test_run (test_key, workflow_id)",
    "CREATE INDEX test_job ON test_run (workflow_id, workflow_run_attempt, job_id, verdict)",
    PROBLEMS_OF_TEST,
    TESTS_OF_JOB,
    SUMMARIES,
    CARDS,
    VERDICTS,
    UPLOADS,
    "CREATE INDEX upload_under_way ON upload (id) WHERE NOT done",
    SETTLED,
    FAILED,
    TO_COPY,
    *CHANGES,
    CHORES,
    SETUPS,
    IMPORTED_TESTS,
    IMPORTED_SETUPS,
    IMPORTED_CLASSES,
)
# Counted up with every change of it; nothing carries a file of another version over.
VERSION = 8
