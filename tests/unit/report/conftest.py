"""One run that has everything in it: every verdict, both schemes of errors, and hostile text."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ci.record.identity import RunIdentity
from ci.record.journal import Journal
from ci.report.reconcile import Account, reconcile
from ci.report.terminal import show_ending
from ci.report.totals import Estimates, Summary, summarize
from test_selection.plan import Group, Plan, Shard
from test_selection.selection import OrderNote, Selection
from tests.journal_rows import Row, events_from

Golden = Callable[[str, str], None]
T0 = 1_770_000_000.0
HOSTILE = "<script>alert(1)</script> | `x` \x1b[31mred\x1b[0m \x00 \udc80 ]]> & \"q\" 'a' \u202e @all\n# head"
HOSTILE_ID = f"test_b.py::TestB::test_{HOSTILE}"
FILES = {
    "test_a.py": [
        "test_a.py::TestA::test_add[dtype=float32,op=add]",
        "test_a.py::TestA::test_crash[dtype=float32,op=kron]",
        "test_a.py::TestA::test_flaky",
        "test_a.py::TestA::test_skip",
        "test_a.py::TestA::test_xfail",
        "test_a.py::TestA::test_xpass",
    ],
    "test_b.py": [HOSTILE_ID, "test_b.py::TestB::test_card", "test_b.py::TestB::test_lost"],
    "sub/test_c.py": ["sub/test_c.py::test_plain", "sub/test_c.py::test_other"],
}
ADD, CRASH, FLAKY, SKIP, XFAIL, XPASS = FILES["test_a.py"]
_, CARD, LOST = FILES["test_b.py"]
PLAIN, OTHER = FILES["sub/test_c.py"]


def identity() -> RunIdentity:
    return RunIdentity(
        run="2026-02-02-nightly-7",
        run_id=7,
        run_attempt=1,
        device="spyre",
        pytorch_version="2.13.0",
        pytorch_sha="0123456789abcdef0123456789abcdef01234567",
        stage=1,
        percent=5.0,
        started_at=T0,
        lane="nightly-pinned",
        job_name="stage-1",
        workflow="nightly",
        url="https://ci.example/runs/7",
        provider="github",
        reproduce=("nox", "-s", "pytorch", "--", "--pytorch-src", "my tree", "--device", "spyre"),
    )


def plan() -> Plan:
    def group(file: str) -> Group:
        return Group(file=file, ids=tuple(FILES[file]))

    shards = (
        Shard(index=0, expected_s=20.0, groups=(group("test_a.py"),)),
        Shard(index=1, expected_s=18.0, groups=(group("test_b.py"),)),
        Shard(index=2, expected_s=5.0, groups=(group("sub/test_c.py"),)),
    )
    return Plan(fingerprint="f", bound_s=19, makespan_s=20, binds="cards", shards=shards)


NOTE = OrderNote(
    source="selection.lock.gz",
    locked=219,
    came=2,
    went=1,
    complete_at={"must-run": 0.0, "files": 1.37, "ops": 2.28, "templates": 3.2, "op-dtype pairs": 14.0},
    reached={"files": (3, 3), "ops": (9, 9), "templates": (40, 40), "op-dtype pairs": (70, 310)},
    remarks=("the share has drifted from 5 % by -0.46 % since the lock: relock `now` <b>",),
)


def selection() -> Selection:
    errors = {"test_torch.py": f"Traceback:\n  File x\nImportError: cannot import {HOSTILE[:30]}"}
    ids = [name for names in FILES.values() for name in names]
    return Selection(stage=1, percent=5.0, ids=ids, in_scope=220, collect_errors=errors, ladder=NOTE)


def at(t: float, kind: str, **content: Any) -> Row:
    return {"t": T0 + t, "e": kind, **content}


def journals() -> list[Journal]:
    def ran(t: float, name: str, outcome: str, **content: Any) -> list[Row]:
        seconds = content.pop("seconds", 0.5)
        return [
            at(t, "start", id=name),
            at(t + seconds, "end", id=name, outcome=outcome, seconds=seconds, **content),
        ]

    first = [
        at(0, "shard_start", shard=0, attempt=1, card="spyre:0", host="node-a", fingerprint="f"),
        at(0, "group_start", file="test_a.py", tests=6),
        at(4, "group_ready", file="test_a.py", setup_s=4.0),
        *ran(4, ADD, "passed", seconds=1.25),
        at(6, "start", id=CRASH),
        at(8, "crash", id=CRASH, cause="signal", message="SIGSEGV", detail="frame 0\nframe 1", seconds=2.0),
        at(8, "group_start", file="test_a.py", tests=4),
        at(12, "group_ready", file="test_a.py", setup_s=4.0),
        *ran(
            12, FLAKY, "failed", message="AssertionError: 1 != 2", detail="Traceback\nAssertionError: 1 != 2"
        ),
        *ran(13, FLAKY, "passed"),
        *ran(14, SKIP, "skipped", message="needs fp8"),
        *ran(15, XFAIL, "xfailed", message="known gap"),
        *ran(16, XPASS, "xpassed"),
        at(17, "shard_end", status="done"),
    ]
    second = [
        at(0.5, "shard_start", shard=1, attempt=1, card="spyre:1", host="node-a", fingerprint="f"),
        at(0.5, "group_start", file="test_b.py", tests=3),
        at(3, "group_ready", file="test_b.py", setup_s=2.5),
        *ran(3, HOSTILE_ID, "failed", message=HOSTILE, detail=f"Traceback\n{HOSTILE}", seconds=3.0),
        at(7, "start", id=CARD),
        at(9, "crash", id=CARD, cause="hardware", message="card reset"),
        at(10, "start", id=LOST),
        at(11, "worker_lost", id=LOST, message="pod evicted"),
    ]
    return [
        Journal(path=Path("0-1"), shard=0, attempt=1, events=events_from(first)),
        Journal(path=Path("1-1"), shard=1, attempt=1, events=events_from(second), torn=1),
    ]


def all_green() -> tuple[Account, Summary]:
    """A run of one shard in which every test passed."""
    whole = plan()
    whole = replace(whole, shards=(replace(whole.shards[2], index=0),))
    events = [
        at(0, "shard_start", card="spyre:0", fingerprint="f"),
        *(
            at(1, kind, id=name, outcome="passed", seconds=0.1)
            for name in (PLAIN, OTHER)
            for kind in ("start", "end")
        ),
        at(2, "shard_end", status="done"),
    ]
    account = reconcile(whole, [Journal(path=Path("0-1"), shard=0, attempt=1, events=events_from(events))])
    chosen = Selection(stage=1, percent=5.0, ids=[PLAIN, OTHER], in_scope=40)
    return account, summarize(account, identity(), chosen)


def ending_lines(summary: Summary, account: Account, report: Path | None = None) -> list[str]:
    """The ending of a run as lines, without colours."""
    stream = io.StringIO()
    show_ending(Console(file=stream, width=100), summary, account, report)
    return stream.getvalue().splitlines()


@pytest.fixture
def account() -> Account:
    return reconcile(plan(), journals(), expectations={XFAIL: "no complex numbers yet"})


@pytest.fixture
def summary(account: Account) -> Summary:
    tests = {result.id: 2.0 for result in account.results}
    return summarize(account, identity(), selection(), estimates=Estimates(in_scope_s=440.0, tests=tests))


@pytest.fixture
def green() -> tuple[Account, Summary]:
    return all_green()
