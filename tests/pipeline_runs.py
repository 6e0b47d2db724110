"""Run folders made by hand, as a pipeline's jobs hand them on, and archives of them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ci.record import events
from ci.record.identity import RunIdentity, write_identity
from ci.record.journal import JournalWriter, journal_path, read_journals
from ci.report.reconcile import reconcile
from ci.report.write import write_report
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection

T0 = 1_770_000_000.0
IMAGE = f"quay.io/o/i@sha256:{'1' * 64}"
MESSAGES = {"failed": "AssertionError: 1 != 2", "skipped": "needs fp8", "hardware": "card reset"}


def identity_of(run: str = "run-1") -> RunIdentity:
    return RunIdentity(
        run=run,
        run_id=7,
        run_attempt=1,
        device="spyre",
        pytorch_version="2.13.0",
        pytorch_sha="0123456789abcdef0123456789abcdef01234567",
        stage=1,
        percent=5.0,
        started_at=T0,
        image=IMAGE,
        reproduce=("nox", "-s", "pytorch", "--", "--pytorch-src", "/srv/tree", "--device", "spyre"),
    )


def plan_folder(folder: Path, ids: Sequence[str], *, shards: int = 2) -> Plan:
    """A folder of a run that was planned: so many shards, a file each."""
    size = -(-len(ids) // shards)
    parts = [tuple(ids[begin : begin + size]) for begin in range(0, len(ids), size)]
    made = tuple(
        Shard(index=index, expected_s=1.0, groups=(Group(file=f"test_{index}.py", ids=part),))
        for index, part in enumerate(parts)
    )
    plan = Plan(fingerprint=fingerprint(made), bound_s=1, makespan_s=1, binds="cards", shards=made)
    folder.mkdir(parents=True, exist_ok=True)
    write_plan(folder / "plan.json", plan)
    write_selection(folder / "selection.json", Selection(stage=1, percent=5.0, ids=list(ids), in_scope=100))
    write_identity(folder, identity_of(folder.name))
    return plan


def run_journals(folder: Path, plan: Plan, outcomes: Mapping[str, str], *, image: str = IMAGE) -> None:
    """Journals of every shard; `flaky` failed once, and what has no outcome was never started."""
    (folder / "journal").mkdir(exist_ok=True)
    for shard in plan.shards:
        writer = JournalWriter(journal_path(folder, shard.index, 1), lambda: T0 + 1)
        writer.write(
            events.ShardStart(
                shard=shard.index,
                attempt=1,
                card="spyre:0",
                host="node",
                fingerprint=plan.fingerprint,
                back_end="emulated 1",
                torch="2.13.0",
                image=image,
            )
        )
        for name in shard.ids:
            for number, outcome in enumerate(_tries(outcomes.get(name)), start=1):
                writer.write(events.Start(id=name, number=number))
                message = MESSAGES.get(outcome, "")
                if outcome == "hardware":
                    writer.write(events.Crash(id=name, cause="hardware", message=message))
                else:
                    writer.write(events.End(id=name, outcome=outcome, seconds=0.5, message=message))
        writer.write(events.ShardEnd(status="done"))
        writer.close()


def report_folder(
    folder: Path, outcomes: Mapping[str, str], *, pytorch: str = "2.13.0", lane: str = ""
) -> Path:
    """A folder of a run that ended and was reported."""
    plan = plan_folder(folder, list(outcomes))
    run_journals(folder, plan, outcomes)
    account = reconcile(plan, read_journals(folder))
    chosen = Selection(stage=1, percent=5.0, ids=list(outcomes), in_scope=100)
    identity = replace(identity_of(folder.name), pytorch_version=pytorch, lane=lane)
    write_report(folder, account=account, identity=identity, selection=chosen)
    return folder


def zipped(folder: Path, *, below: str = "", extra: Mapping[str, bytes] | None = None) -> bytes:
    """A folder as an artifact has it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{below}{path.relative_to(folder).as_posix()}")
        for name, data in (extra or {}).items():
            archive.writestr(name, data)
    return packed.getvalue()


def _tries(outcome: str | None) -> tuple[str, ...]:
    if outcome is None or outcome == "not_run":
        return ()
    return ("failed", "passed") if outcome == "flaky" else (outcome,)
