"""What the made-up history of the HUD store is made of: its jobs, its tests and what becomes of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ci.store.identity import key_of_test

SPYRE, OTHER, PROBES = "torch-spyre/torch-spyre", "example-ai/torch-example", "pytorch/crcr-test"
CARDS = tuple(f"0000:{bus:02x}:00.0" for bus in range(0x1A, 0x1A + 8))
BAD_CARD, BAD_DAYS = CARDS[3], range(38, 47)
OUTAGE_DAYS = range(58, 62)
STAGES = ((0, 1, 5.0), (20, 2, 25.0), (45, 3, 50.0), (70, 4, 80.0))
FILES = tuple(f"test/test_{name}.py" for name in (
    "ops", "torch", "view_ops", "unary_ufuncs", "binary_ufuncs", "reductions", "shape_ops", "indexing",
    "type_promotion", "sort_and_select", "linalg", "nn", "modules", "autograd", "tensor_creation_ops",
    "sparse",
    "optim", "dataloader", "serialization", "testing",
))  # fmt: skip
OPS, DTYPES = (
    ("add", "mul", "matmul", "softmax", "index_select", "cumsum", "where"),
    ("float16", "float32", "int64"),
)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(2)>'{{7*7}}",
    "\u202egnp.exe\u0007\u001b[31mred",
    "long" * 800,
    "a/../..//b?x=1#y %2e%2e &amp;",
)
HOSTILE_URL = "javascript:alert(3)"
MESSAGES = (
    ("AssertionError: Tensor-likes are not close!", ""),
    ("RuntimeError: not implemented for 'Half'", ""),
    ("the process ended by SIGSEGV", "signal"),
    ("no sign of life for 300 s", "hang"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test as it is: the same for all its runs."""

    id: str
    key: int
    file: str
    classname: str
    name: str
    seconds: float
    kind: str
    broken: range = range(0)


@dataclass(slots=True)
class Job:
    repo: str
    lane: str
    event: str
    workflow: str
    job: str
    day: int
    start: datetime
    sha: str
    delivery: str
    run_id: int
    attempt: int = 1
    pr: int = 0
    weight: float = 0.0
    conclusion: str = ""
    status: str = "completed"
    share: float = 100.0
    stage: int | None = None
    texts: tuple[str, str] = ("", "")


def jobs_of(draw: random.Random, end: datetime, days: int) -> Iterator[Job]:
    first = (end - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    run_id, pull = 5_000_000_000, 140_000
    for day in range(days):
        midnight = first + timedelta(days=day)
        _, stage, percent = next(row for row in reversed(STAGES) if day * 90 >= row[0] * days)
        sha = f"{draw.getrandbits(160):040x}"
        for lane, hour in (("nightly-main", 2), ("nightly-pinned", 4)):
            run_id += 7
            job = Job(
                SPYRE, lane, "nightly", "Nightly", lane, day, midnight + timedelta(hours=hour), sha, sha,
                run_id,
                weight=8 * percent / 80, share=percent, stage=stage,
            )  # fmt: skip
            if day in OUTAGE_DAYS and lane == "nightly-main":
                if day % 2:
                    continue
                job.conclusion = "failure"
            yield job
        run_id += 7
        yield Job(
            OTHER, "", "nightly", "nightly", "test-all", day, midnight + timedelta(hours=5), sha, sha, run_id,
            conclusion=draw.choices(("success", "failure", "timed_out"), (8, 2, 1))[0],
        )  # fmt: skip
        for _ in range(draw.randint(3, 7)):
            pull += draw.randint(1, 30)
            yield from _pull_request(
                draw, midnight, day=day, pull=pull, run_id=run_id, percent=percent, stage=stage
            )
            run_id += 9
    yield _hostile_job(end, days, run_id + 99)


def _pull_request(
    draw: random.Random, midnight: datetime, *, day: int, pull: int, run_id: int, percent: float, stage: int
) -> Iterator[Job]:
    start = midnight + timedelta(hours=6, minutes=draw.randint(0, 16 * 60))
    sha, delivery = f"{draw.getrandbits(160):040x}", f"{draw.getrandbits(128):032x}"
    for workflow, job in (("PR", "pr"), ("PR", "pr-compile")):  # two jobs of one run
        for attempt in (1, 2) if draw.random() < 0.15 else (1,):
            yield Job(
                SPYRE, "pr", "pull_request", workflow, job, day,
                start + timedelta(minutes=50 * (attempt - 1)),
                sha, delivery, run_id + 1, attempt=attempt, pr=pull, weight=1.0,
                share=min(percent, 25.0), stage=min(stage, 2),
                conclusion="cancelled" if draw.random() < 0.03 else "",
            )  # fmt: skip
    yield Job(
        OTHER, "", "pull_request", "pr", "smoke", day, start, sha, delivery, run_id + 3, pr=pull,
        conclusion=draw.choices(("success", "failure", "timed_out", "cancelled"), (85, 10, 3, 2))[0],
    )  # fmt: skip
    if day % 3 == 0:
        for name, conclusion in (("xfail", "failure"), ("xcancel", "cancelled"), ("plain", "success")):
            yield Job(
                PROBES, "", "pull_request", "probe", name, day, start, sha, delivery, run_id + 4, pr=pull,
                conclusion=conclusion,
            )  # fmt: skip


def _hostile_job(end: datetime, days: int, run_id: int) -> Job:
    return Job(
        SPYRE, HOSTILE[0], "nightly", HOSTILE[1], HOSTILE[0] + HOSTILE[2], days - 1,
        end - timedelta(minutes=40),
        HOSTILE[1], HOSTILE[1], run_id, weight=0.3, share=5.0, stage=1, texts=(HOSTILE[1], HOSTILE_URL),
    )  # fmt: skip


def cases_of(draw: random.Random, number: int, days: int) -> list[Case]:
    cases = []
    for place in range(number):
        file = FILES[place % len(FILES)]
        name = f"test_{OPS[place % 7]}_{place // 60}"
        classname = f"Test{file[10:-3].title().replace('_', '')}"
        made = f"{file}::{classname}::{name}[op={OPS[place % 7]},dtype={DTYPES[place % 3]}]"
        odd, broken = draw.random(), range(0)
        kind = "flaky" if odd < 0.02 else "skipped" if odd < 0.09 else "xfailed" if odd < 0.15 else "good"
        if place == 1:
            kind = "flaky"  # one at least, and in every job
        if kind == "good" and draw.random() < 0.06:
            since = draw.randrange(days)
            broken = range(since, since + draw.randint(1, 12))
        if 3 <= place < 3 + len(HOSTILE):
            text = HOSTILE[place - 3]
            made, classname, name, kind = f"{file}::{text}::{text}", text, text, "hostile"
        seconds = draw.lognormvariate(-1.6, 1.3)
        key = key_of_test(made, 0)
        cases.append(
            Case(
                id=made,
                key=key,
                file=file,
                classname=classname,
                name=name,
                seconds=seconds,
                kind=kind,
                broken=broken,
            )
        )
    return cases


def verdict_of(draw: random.Random, job: Job, case: Case, card: str) -> tuple[str, str, str, int]:
    """What becomes of a test in a job: verdict, cause, message, attempts."""
    luck = draw.random()
    lost = job.conclusion == "failure" and job.repo == SPYRE
    if lost and luck < 0.6:  # most of it never came to run
        return "not_run", "", "the shard was lost before it came to this test", 1
    if job.repo == SPYRE and card == BAD_CARD and job.day in BAD_DAYS and luck < 0.2:
        return "hardware", "", f"RAS::VFIO::DeviceOpenFail on {card}", 2
    fixed = {
        "hostile": ("failed", "", case.name, 1),
        "skipped": ("skipped", "", "needs a feature that is not found", 1),
        "xfailed": ("xpassed", "", "", 1) if luck < 0.01 else ("xfailed", "", "expected", 1),
    }
    if case.kind in fixed:
        return fixed[case.kind]
    if case.kind == "flaky" and luck < 0.12:
        return ("flaky", "", MESSAGES[0][0], 2) if luck < 0.08 else ("failed", "", MESSAGES[0][0], 3)
    if job.day in case.broken:
        message, cause = MESSAGES[case.key % len(MESSAGES)]
        return "failed", cause, message, 3
    return "passed", "", "", 1
