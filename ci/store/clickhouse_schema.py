"""The ClickHouse tables, named as HUD's, and a view in which times are text, as our queries compare them."""

from __future__ import annotations

# A job that says it ended before it began took no time.
DURATION = """if(
        toUnixTimestamp64Nano(started_at) = 0 OR toUnixTimestamp64Nano(completed_at) = 0, 0,
        greatest(0, round((toUnixTimestamp64Nano(completed_at) - toUnixTimestamp64Nano(started_at)) / 1e9, 3))
    )"""
# As `default.crcr_workflow_job` of HUD; `id` and `job_id` are ours.
JOBS = """
CREATE TABLE IF NOT EXISTS crcr_workflow_job (
    id UInt64,
    dynamoKey String,
    status String,
    downstream_repo String,
    upstream_repo String,
    pr_number UInt64,
    pytorch_head_sha String,
    delivery_id String,
    workflow_run_url String,
    workflow_name String,
    job_name String,
    check_run_id String,
    run_id String,
    run_attempt UInt32,
    conclusion String,
    queue_time Nullable(Float64),
    execution_time Nullable(Float64),
    started_at DateTime64(9, 'UTC'),
    completed_at DateTime64(9, 'UTC'),
    total_tests UInt64,
    passed_tests UInt64,
    failed_tests UInt64,
    skipped_tests UInt64,
    failed_tests_json String,
    artifact_url String,
    environment String,
    downstream_repo_level String,
    event_type String DEFAULT 'pull_request',
    job_id Int64,
    _inserted_at DateTime64(6, 'UTC'),
    repository_full_name String ALIAS downstream_repo,
    duration_seconds Float64 ALIAS DURATION
) ENGINE = ReplacingMergeTree(_inserted_at) ORDER BY (downstream_repo, delivery_id, dynamoKey)
""".replace("DURATION", DURATION)

_TEXT = (
    "if(toUnixTimestamp64Nano({0}) = 0, '', "
    "concat(formatDateTime({0}, '%Y-%m-%dT%H:%i:%S'), '.', "
    "leftPad(toString(intDiv(toUnixTimestamp64Nano({0}) % 1000000000, 1000)), 6, '0'), 'Z'))"
)
# `superseded` means what it means in the SQLite view. The numbers are of the types that rows of tests have:
# numbers of two types would be compared pair by pair, after a join of every job with every row.
_RANKED = """
CREATE OR REPLACE VIEW crcr_workflow_job_ranked AS
SELECT * EXCEPT (started_at, completed_at, job_id), repository_full_name, duration_seconds,
    STARTED AS started_at,
    COMPLETED AS completed_at,
    toUInt64(job_id) AS job_id,
    toUInt64OrZero(run_id) AS workflow_id,
    run_attempt AS workflow_run_attempt,
    toUInt8(run_attempt < max(run_attempt) OVER (
        PARTITION BY downstream_repo, delivery_id, workflow_name, job_name, run_id
    )) AS superseded
FROM crcr_workflow_job FINAL
"""
JOBS_RANKED = _RANKED.replace("STARTED", _TEXT.format("started_at")).replace(
    "COMPLETED", _TEXT.format("completed_at")
)

DETAILS = """
CREATE TABLE IF NOT EXISTS job_detail (
    dynamoKey String,
    run String,
    lane String,
    provider String,
    device String,
    pytorch String,
    checkout String,
    stage Nullable(Int64),
    percent Nullable(Float64),
    exit_code Nullable(Int64),
    cards Nullable(Int64),
    in_scope Nullable(Int64),
    selected Nullable(Int64),
    ran Nullable(Int64),
    passed Nullable(Int64),
    in_scope_seconds Nullable(Float64),
    selected_seconds Nullable(Float64),
    ran_seconds Nullable(Float64),
    passed_seconds Nullable(Float64),
    first_failure_seconds Nullable(Float64)
) ENGINE = ReplacingMergeTree ORDER BY dynamoKey
"""

# The index finds a test's history, the order a job's tests.
TESTS = """
CREATE TABLE IF NOT EXISTS test_run (
    workflow_id UInt64,
    workflow_run_attempt UInt32,
    job_id UInt64,
    invoking_file LowCardinality(String),
    file LowCardinality(String),
    classname LowCardinality(String),
    name String,
    line Nullable(UInt64),
    time Float64,
    failure String,
    error String,
    skipped String,
    rerun String,
    system_out String,
    system_err String,
    properties String,
    test_id String,
    test_key UInt64,
    place UInt32,
    verdict LowCardinality(String),
    cause LowCardinality(String),
    card LowCardinality(String),
    attempts UInt32 DEFAULT 1,
    message String,
    upload_id UInt64,
    INDEX history test_key TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = MergeTree ORDER BY (workflow_id, workflow_run_attempt, job_id, verdict, invoking_file)
"""

# Numbers of uploads that are on their way: the list of uploads is in SQLite.
UNDER_WAY = """
CREATE TABLE IF NOT EXISTS upload_under_way (id UInt64) ENGINE = MergeTree ORDER BY id
"""

SETTLED = """
CREATE VIEW IF NOT EXISTS settled_test_run AS
SELECT * FROM test_run WHERE upload_id NOT IN (SELECT id FROM upload_under_way)
"""

FAILED = """
CREATE VIEW IF NOT EXISTS failed_test_runs AS
SELECT * FROM settled_test_run WHERE failure != '' OR error != '' OR rerun != ''
"""

SUMMARIES = """
CREATE TABLE IF NOT EXISTS test_run_summary (
    workflow_id UInt64,
    workflow_run_attempt UInt32,
    job_id UInt64,
    invoking_file LowCardinality(String),
    file LowCardinality(String),
    classname LowCardinality(String),
    tests UInt64,
    errors UInt64,
    failures UInt64,
    skipped UInt64,
    successes UInt64,
    time Float64
) ENGINE = SummingMergeTree
ORDER BY (workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname)
"""

CARDS = """
CREATE TABLE IF NOT EXISTS job_card (
    workflow_id UInt64,
    workflow_run_attempt UInt32,
    job_id UInt64,
    card LowCardinality(String),
    verdict LowCardinality(String),
    tests UInt64,
    seconds Float64
) ENGINE = SummingMergeTree ORDER BY (workflow_id, workflow_run_attempt, job_id, card, verdict)
"""

VERDICTS = """
CREATE VIEW IF NOT EXISTS job_verdict AS
SELECT workflow_id, workflow_run_attempt, job_id, verdict, sum(tests) AS tests, sum(seconds) AS seconds
FROM job_card GROUP BY workflow_id, workflow_run_attempt, job_id, verdict
"""

STATEMENTS = (
    JOBS,
    JOBS_RANKED,
    DETAILS,
    TESTS,
    UNDER_WAY,
    SETTLED,
    FAILED,
    SUMMARIES,
    CARDS,
    VERDICTS,
)
