"""The tables of the store, described once: SQLite's and ClickHouse's statements are both made from here.

Table and column names are those of HUD's ClickHouse tables. In SQLite a time is ISO-8601 text in UTC with
microseconds, empty where HUD has its zero time; queries read jobs from `crcr_workflow_job_ranked`, in which
ClickHouse's times are such text too. ClickHouse keeps the results; the ledger of callbacks and uploads is
SQLite's alone, which has transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# Of a SQLite file, in `PRAGMA user_version`. Counted up with every change; nothing carries a file of another
# version over.
VERSION = 11


class Type(NamedTuple):
    """A column's definition in each of the two; empty: it has no such column."""

    sqlite: str
    clickhouse: str


TEXT = Type("TEXT NOT NULL DEFAULT ''", "String")
WORD = Type(TEXT.sqlite, "LowCardinality(String)")  # of few values
TIME = Type(TEXT.sqlite, "DateTime64(9, 'UTC')")
NUMBER = Type("INTEGER NOT NULL DEFAULT 0", "UInt64")
SMALL = Type(NUMBER.sqlite, "UInt32")
FROM_ONE = Type("INTEGER NOT NULL DEFAULT 1", "UInt32 DEFAULT 1")
REAL = Type("REAL NOT NULL DEFAULT 0", "Float64")
MAYBE_NUMBER = Type("INTEGER", "Nullable(Int64)")
MAYBE_REAL = Type("REAL", "Nullable(Float64)")
# A job that says it ended before it began took no time, and pulls no average below zero.
DURATION = Type(
    """REAL GENERATED ALWAYS AS (
        CASE WHEN started_at = '' OR completed_at = '' THEN 0
        ELSE max(0.0, round((julianday(completed_at) - julianday(started_at)) * 86400, 3)) END
    ) VIRTUAL""",
    """Float64 ALIAS if(
        toUnixTimestamp64Nano(started_at) = 0 OR toUnixTimestamp64Nano(completed_at) = 0, 0,
        greatest(0, round((toUnixTimestamp64Nano(completed_at) - toUnixTimestamp64Nano(started_at)) / 1e9, 3))
    )""",
)
OF_JOB = {"workflow_id": NUMBER, "workflow_run_attempt": FROM_ONE, "job_id": NUMBER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        name: in both.
        columns: in order.
        key: the columns that tell rows apart; empty: those with a number of their own.
        engine: ClickHouse's; empty: the table is SQLite's alone.
        order: of ClickHouse's rows, where it is not the key.
        indexes: of SQLite by name, beside the key's.
        clickhouse_index: of ClickHouse.
    """

    name: str
    columns: Mapping[str, Type]
    key: tuple[str, ...] = ()
    engine: str = ""
    order: tuple[str, ...] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    clickhouse_index: str = ""

    def sqlite(self) -> tuple[str, ...]:
        """The statements that make it in SQLite."""
        lines = [f"{name} {column.sqlite}" for name, column in self.columns.items()]
        numbered = any("INTEGER PRIMARY KEY" in line for line in lines)
        if self.key:
            lines.append(f"{'UNIQUE' if numbered else 'PRIMARY KEY'} ({', '.join(self.key)})")
        table = f"CREATE TABLE {self.name} ({', '.join(lines)}){'' if numbered else ' WITHOUT ROWID'}"
        indexes = (f"CREATE INDEX {name} ON {self.name} {what}" for name, what in self.indexes.items())
        return table, *indexes

    def clickhouse(self) -> str:
        """The statement that makes it in ClickHouse where it is not found."""
        lines = [f"{name} {column.clickhouse}" for name, column in self.columns.items() if column.clickhouse]
        lines += [self.clickhouse_index] if self.clickhouse_index else []
        order = ", ".join(self.order or self.key)
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name} ({', '.join(lines)}) "
            f"ENGINE = {self.engine} ORDER BY ({order})"
        )


# As HUD's `default.crcr_workflow_job`; `id`, which names a page, and `job_id` are ours.
JOBS = Table(
    name="crcr_workflow_job",
    columns={
        "id": Type("INTEGER PRIMARY KEY", "UInt64"),
        "dynamoKey": TEXT,
        "status": TEXT,
        "downstream_repo": TEXT,
        "upstream_repo": TEXT,
        "pr_number": NUMBER,
        "pytorch_head_sha": TEXT,
        "delivery_id": TEXT,
        "workflow_run_url": TEXT,
        "workflow_name": TEXT,
        "job_name": TEXT,
        "check_run_id": TEXT,
        "run_id": TEXT,
        "run_attempt": FROM_ONE,
        "conclusion": TEXT,
        "queue_time": MAYBE_REAL,
        "execution_time": MAYBE_REAL,
        "started_at": TIME,
        "completed_at": TIME,
        "total_tests": NUMBER,
        "passed_tests": NUMBER,
        "failed_tests": NUMBER,
        "skipped_tests": NUMBER,
        "failed_tests_json": TEXT,
        "artifact_url": TEXT,
        "environment": TEXT,
        "downstream_repo_level": TEXT,
        "event_type": Type("TEXT NOT NULL DEFAULT 'pull_request'", "String DEFAULT 'pull_request'"),
        "job_id": NUMBER,
        "_inserted_at": TIME,
        "repository_full_name": Type(
            "TEXT GENERATED ALWAYS AS (downstream_repo) VIRTUAL", "String ALIAS downstream_repo"
        ),
        "duration_seconds": DURATION,
    },
    key=("dynamoKey",),
    engine="ReplacingMergeTree(_inserted_at)",
    order=("downstream_repo", "delivery_id", "dynamoKey"),
    indexes={
        "job_order": "(downstream_repo, delivery_id, dynamoKey)",
        "job_started": "(started_at)",
        "job_number": "(job_id)",
        "job_attempts": "(delivery_id, run_id, job_name, run_attempt)",
    },
)

# What HUD's contract has no column for: what a job says of itself under `payload.spyre_ci`. Empty or NULL
# where a job does not say; seconds are those of tests, one after the other.
DETAILS = Table(
    name="job_detail",
    columns={
        "dynamoKey": TEXT,
        "run": TEXT,
        "lane": TEXT,
        "provider": TEXT,
        "device": TEXT,
        "pytorch": TEXT,
        "checkout": TEXT,
        "stage": MAYBE_NUMBER,
        "percent": MAYBE_REAL,
        "exit_code": MAYBE_NUMBER,
        "cards": MAYBE_NUMBER,
        "in_scope": MAYBE_NUMBER,
        "selected": MAYBE_NUMBER,
        "ran": MAYBE_NUMBER,
        "passed": MAYBE_NUMBER,
        "in_scope_seconds": MAYBE_REAL,
        "selected_seconds": MAYBE_REAL,
        "ran_seconds": MAYBE_REAL,
        "passed_seconds": MAYBE_REAL,
        "first_failure_seconds": MAYBE_REAL,
        "change_failed": MAYBE_NUMBER,
        "change_caught": MAYBE_NUMBER,
    },
    key=("dynamoKey",),
    engine="ReplacingMergeTree",
)

# Since when a test has a problem is asked of a whole history; its problems are few, so this stays small. A
# query uses the index where it has the very same condition.
PROBLEM = "verdict IN ('failed', 'hardware', 'infrastructure', 'not_run', 'flaky', 'xpassed')"
# Keys as in PyTorch's own uploads; child elements as JSON, '' where there is none. `test_key` is the hash of
# `test_id` and `place` (see ci.store.identity), whose index serves a test's history.
TESTS = Table(
    name="test_run",
    columns={
        "id": Type("INTEGER PRIMARY KEY", ""),
        **OF_JOB,
        "invoking_file": WORD,
        "file": WORD,
        "classname": WORD,
        "name": TEXT,
        "line": Type("INTEGER", "Nullable(UInt64)"),
        "time": REAL,
        "failure": TEXT,
        "error": TEXT,
        "skipped": TEXT,
        "rerun": TEXT,
        "system_out": TEXT,
        "system_err": TEXT,
        "properties": TEXT,
        "test_id": TEXT,
        "test_key": NUMBER,
        "place": SMALL,
        "verdict": WORD,
        "cause": WORD,
        "card": WORD,
        "attempts": FROM_ONE,
        "message": TEXT,
        "upload_id": NUMBER,
    },
    engine="MergeTree",
    order=(*OF_JOB, "verdict", "invoking_file"),
    indexes={
        "test_history": "(test_key, workflow_id)",
        "test_job": "(workflow_id, workflow_run_attempt, job_id, verdict)",
        "test_problem": f"(test_key, verdict, workflow_id, workflow_run_attempt, job_id) WHERE {PROBLEM}",
        # What a comparison and an order by time read of each test of a job, beside the rows, which are wide.
        # In the order of `id`, so that a new row always goes to a job's end, which costs an upload the least.
        "test_of_job": "(workflow_id, workflow_run_attempt, job_id, id, test_key, verdict, time, upload_id)",
    },
    clickhouse_index="INDEX history test_key TYPE bloom_filter(0.001) GRANULARITY 1",
)

# These two are counted as rows come: pages never count rows one by one.
SUMMARIES = Table(
    name="test_run_summary",
    columns={
        **OF_JOB,
        "invoking_file": WORD,
        "file": WORD,
        "classname": WORD,
        "tests": NUMBER,
        "errors": NUMBER,
        "failures": NUMBER,
        "skipped": NUMBER,
        "successes": NUMBER,
        "time": REAL,
    },
    key=(*OF_JOB, "invoking_file", "file", "classname"),
    engine="SummingMergeTree",
)
CARDS = Table(
    name="job_card",
    columns={**OF_JOB, "card": WORD, "verdict": WORD, "tests": NUMBER, "seconds": REAL},
    key=(*OF_JOB, "card", "verdict"),
    engine="SummingMergeTree",
)

# The life of a file of rows: COMING until all of them are there, DONE, GOING until the last is taken away.
# Only rows of one that is DONE are seen. The same bytes sent again change nothing; others under its name take
# their place. `sent` and `stored` are counted, the latter in the tables.
UPLOADS = Table(
    name="upload",
    columns={
        "id": Type("INTEGER PRIMARY KEY AUTOINCREMENT", ""),
        **OF_JOB,
        "kind": TEXT,
        "name": TEXT,
        "sha256": TEXT,
        "sent": NUMBER,
        "stored": NUMBER,
        "state": Type("TEXT NOT NULL CHECK (state IN ('COMING', 'DONE', 'GOING'))", ""),
        "at": REAL,
    },
    indexes={
        "upload_job": "(workflow_id, workflow_run_attempt, job_id)",
        "upload_under_way": "(id) WHERE state != 'DONE'",
    },
)
SETUPS = Table(
    name="file_setup",
    columns={**OF_JOB, "file": TEXT, "seconds": REAL},
    key=(*OF_JOB, "file"),
)
LEDGER = (
    UPLOADS,
    Table(
        name="callback_state",
        columns={
            "key": TEXT,
            "state": Type("TEXT NOT NULL CHECK (state IN ('DISPATCHED', 'IN_PROGRESS', 'COMPLETED'))", ""),
            "at": REAL,
        },
        key=("key",),
        indexes={"state_age": "(at)"},
    ),
    # Jobs whose copy in ClickHouse is older than they are, or which are gone; `version` grows with each
    # change, so that one made while it is copied is copied again.
    Table(name="job_to_copy", columns={"dynamoKey": TEXT, "version": NUMBER}, key=("dynamoKey",)),
    # What files took to set up, and what was measured elsewhere; names are as `ci.store.identity` keeps them.
    SETUPS,
    Table(
        name="imported_test",
        columns={"device": TEXT, "name": TEXT, "seconds": REAL, "spread": MAYBE_REAL},
        key=("device", "name"),
    ),
    Table(
        name="imported_setup",
        columns={"device": TEXT, "file": TEXT, "seconds": REAL},
        key=("device", "file"),
    ),
    Table(name="imported_class", columns={"name": TEXT, "seconds": REAL}, key=("name",)),
    # What tests called when they last ran, operators and functions apart, as lists in JSON.
    Table(
        name="op_trace",
        columns={"device": TEXT, "pytorch": TEXT, "name": TEXT, "functions": NUMBER, "ops": TEXT, "at": REAL},
        key=("device", "pytorch", "name", "functions"),
    ),
    # When a chore was last done by whoever has no thread for chores, in seconds since the epoch.
    Table(name="chore", columns={"name": TEXT, "at": REAL}, key=("name",)),
)
RESULTS = (JOBS, DETAILS, TESTS, SUMMARIES, CARDS)

_CHANGED = """
CREATE TRIGGER {table}_{event}_copied AFTER {event} ON {table} BEGIN
    INSERT INTO job_to_copy VALUES ({row}.dynamoKey, 1)
    ON CONFLICT (dynamoKey) DO UPDATE SET version = version + 1;
END
"""
_TRIGGERS = tuple(
    _CHANGED.format(table=table.name, event=event, row="OLD" if event == "DELETE" else "NEW")
    for table in (JOBS, DETAILS)
    for event in ("INSERT", "UPDATE", "DELETE")
)

# Of both: what pages and routes read.
_VIEWS = {
    "settled_test_run": "SELECT * FROM test_run WHERE upload_id NOT IN (SELECT id FROM upload_hidden)",
    "failed_test_runs": ("SELECT * FROM settled_test_run WHERE failure != '' OR error != '' OR rerun != ''"),
    "job_verdict": (
        "SELECT workflow_id, workflow_run_attempt, job_id, verdict, sum(tests) AS tests, "
        "sum(seconds) AS seconds FROM job_card GROUP BY workflow_id, workflow_run_attempt, job_id, verdict"
    ),
}
# A re-run replaces the attempt before: one definition, used by every page and every route. SQLite asks it for
# each row by an index; jobs have the numbers that rows of tests have, and of their types: ClickHouse would
# compare numbers of two types pair by pair, after a join of every job with every row.
_SQLITE_VIEWS = {
    "upload_hidden": "SELECT id FROM upload WHERE state != 'DONE'",
    "crcr_workflow_job_ranked": """
SELECT j.*, CAST(j.run_id AS BIGINT) AS workflow_id, j.run_attempt AS workflow_run_attempt,
    EXISTS (
        SELECT 1 FROM crcr_workflow_job AS k
        WHERE k.delivery_id = j.delivery_id AND k.run_id = j.run_id AND k.job_name = j.job_name
            AND k.workflow_name = j.workflow_name AND k.downstream_repo = j.downstream_repo
            AND k.run_attempt > j.run_attempt
    ) AS superseded
FROM crcr_workflow_job AS j
""",
}
_TIME_TEXT = (
    "if(toUnixTimestamp64Nano({0}) = 0, '', "
    "concat(formatDateTime({0}, '%Y-%m-%dT%H:%i:%S'), '.', "
    "leftPad(toString(intDiv(toUnixTimestamp64Nano({0}) % 1000000000, 1000)), 6, '0'), 'Z')) AS {0}"
)
_CLICKHOUSE_RANKED = f"""
SELECT * EXCEPT (started_at, completed_at), repository_full_name, duration_seconds,
    {_TIME_TEXT.format("started_at")},
    {_TIME_TEXT.format("completed_at")},
    toUInt64OrZero(run_id) AS workflow_id,
    run_attempt AS workflow_run_attempt,
    toUInt8(run_attempt < max(run_attempt) OVER (
        PARTITION BY downstream_repo, delivery_id, workflow_name, job_name, run_id
    )) AS superseded
FROM crcr_workflow_job FINAL
"""  # noqa: S608  # our own words
# Numbers of uploads that are not DONE, whose list is in SQLite.
_CLICKHOUSE_HIDDEN = "CREATE TABLE IF NOT EXISTS upload_hidden (id UInt64) ENGINE = MergeTree ORDER BY id"

SQLITE = (
    *(statement for table in (*RESULTS, *LEDGER) for statement in table.sqlite()),
    *(f"CREATE VIEW {name} AS {query}" for name, query in (_SQLITE_VIEWS | _VIEWS).items()),
    *_TRIGGERS,
)
CLICKHOUSE = (
    *(table.clickhouse() for table in RESULTS),
    _CLICKHOUSE_HIDDEN,
    *(
        f"CREATE OR REPLACE VIEW {name} AS {query}"
        for name, query in ({"crcr_workflow_job_ranked": _CLICKHOUSE_RANKED} | _VIEWS).items()
    ),
)
