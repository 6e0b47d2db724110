"""The SQLite schema of the HUD store, as migrations; `PRAGMA user_version` says how many were made.

Table and column names are those of HUD's ClickHouse table `default.crcr_workflow_job`. Times are ISO-8601
text in UTC with microseconds, empty where HUD has its zero time; `id` is ours and names a page.
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
    _inserted_at TEXT NOT NULL DEFAULT '',
    repository_full_name TEXT GENERATED ALWAYS AS (downstream_repo) VIRTUAL,
    duration_seconds REAL GENERATED ALWAYS AS (
        CASE WHEN started_at = '' OR completed_at = '' THEN 0
        ELSE round((julianday(completed_at) - julianday(started_at)) * 86400, 3) END
    ) VIRTUAL
)
"""

# A re-run replaces the attempt before: one definition, used by every page and every route.
JOBS_RANKED = """
CREATE VIEW crcr_workflow_job_ranked AS
SELECT *, run_attempt < max(run_attempt) OVER (
    PARTITION BY downstream_repo, delivery_id, workflow_name, job_name, run_id
) AS superseded
FROM crcr_workflow_job
"""

STATES = """
CREATE TABLE callback_state (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('DISPATCHED', 'IN_PROGRESS', 'COMPLETED')),
    at REAL NOT NULL
) WITHOUT ROWID
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        JOBS,
        "CREATE INDEX job_order ON crcr_workflow_job (downstream_repo, delivery_id, dynamoKey)",
        "CREATE INDEX job_started ON crcr_workflow_job (started_at)",
        JOBS_RANKED,
        STATES,
        "CREATE INDEX state_age ON callback_state (at)",
    ),
)
