"""A run over as many pods as are wanted, as its store looks when they have ended, without any test run.

Ids, times, outcomes and tracebacks are as PyTorch's are. Some pods left nothing, and some break off.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.record.events import parse
from ci.record.identity import RunIdentity, write_identity
from ci.record.journal_line import line_of
from test_selection.durations import Durations, write_durations
from test_selection.ids import canonical_id
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection
from tests.journal_rows import Row

RUN = "20260101-000000-spyre-stage5"
# What a cluster and a store know it by: with the number and attempt of its identity.
STORED = f"{RUN}-7-1"
BEGAN = 1_767_225_600.0
FILE_TESTS = 2_000
DTYPES = ("float16", "float32", "bfloat16", "int64", "complex64", "bool", "int8", "float64")
OUTCOMES, WEIGHTS = ("passed", "skipped", "xfailed", "failed"), (900, 70, 10, 20)
TRACEBACK = "\n".join(
    f'  File "/opt/pytorch/torch/testing/_internal/common_utils.py", line {3000 + number}, in wrapper\n'
    f"    raise AssertionError(f'Tensor-likes are not close at index ({number}, 3)!')"
    for number in range(16)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyPods:
    """A run, and what its report has to say.

    Attributes:
        plan: the whole plan.
        verdicts: by id.
        absent: shards of which there is no journal.
    """

    plan: Plan
    verdicts: dict[str, str]
    absent: frozenset[int]

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(self.verdicts.values()))


def make_ids(count: int) -> list[tuple[str, str]]:
    """File and test id of so many tests, file after file."""
    found = []
    for number in range(count):
        at, within = divmod(number, FILE_TESTS)
        file = f"functorch/test_part_{at:03}.py" if at % 5 == 0 else f"test_part_{at:03}.py"
        op, dtype = divmod(within, len(DTYPES))
        params = {"op": f"linalg.operator_{op:03}.default", "dtype": DTYPES[dtype]}
        found.append((file, canonical_id(file, "TestCommon", "test_noncontiguous_samples", params)))
    return found


def make_plan(shards: int, tests: int) -> Plan:
    """A plan of so many tests, as even as can be."""
    ids = make_ids(tests)
    cuts = [tests * number // shards for number in range(shards + 1)]
    made = []
    for index in range(shards):
        by_file: dict[str, list[str]] = {}
        for file, name in ids[cuts[index] : cuts[index + 1]]:
            by_file.setdefault(file, []).append(name)
        groups = tuple(Group(file=file, ids=tuple(names)) for file, names in by_file.items())
        made.append(Shard(index=index, expected_s=40.0, groups=groups))
    shards_ = tuple(made)
    return Plan(
        fingerprint=fingerprint(shards_), bound_s=40.0, makespan_s=40.0, binds="balance", shards=shards_
    )


def make_folder(folder: Path, plan: Plan) -> None:
    """A run folder as it is before its pods are submitted."""
    folder.mkdir(parents=True)
    ids = plan.ids
    write_plan(folder / "plan.json", plan)
    selection = Selection(stage=5, percent=100, ids=ids, in_scope=len(ids), in_scope_s=0.4 * len(ids))
    write_selection(folder / "selection.json", selection)
    files = {group.file for shard in plan.shards for group in shard.groups}
    write_durations(
        folder / "durations.json.gz",
        Durations(
            tests=dict.fromkeys(ids, 0.4),
            files=dict.fromkeys(sorted(files), 5.0),
            spread=dict.fromkeys(ids, 0.9),
        ),
    )
    write_identity(
        folder,
        RunIdentity(
            run=RUN, run_id=7, run_attempt=1, device="spyre", pytorch_version="2.13.0", pytorch_sha="c0ffee",
            stage=5, percent=100, started_at=BEGAN,
        ),
    )  # fmt: skip


def make_store(store: Path, plan: Plan, *, seed: int = 7) -> ManyPods:
    """What the pods, one a shard, leave in a folder; one in 300 left nothing, one in 200 breaks off."""
    draw = random.Random(seed)  # noqa: S311  # a seeded draw is no secret
    verdicts: dict[str, str] = {}
    absent = set()
    for shard in plan.shards:
        if draw.random() < 1 / 300:
            absent.add(shard.index)
            verdicts |= dict.fromkeys(shard.ids, "not_run")
            continue
        breaks_off = draw.random() < 1 / 200
        folder = store / STORED / "pods" / str(shard.index) / "journal"
        folder.mkdir(parents=True)
        with (folder / f"{shard.index}-1.jsonl").open("wb") as stream:
            for event in _events(plan, shard, verdicts, draw, breaks_off=breaks_off):
                stream.write(line_of(parse(event)))
    return ManyPods(plan=plan, verdicts=verdicts, absent=frozenset(absent))


def _events(
    plan: Plan, shard: Shard, verdicts: dict[str, str], draw: random.Random, *, breaks_off: bool
) -> Iterator[Row]:
    now = BEGAN + draw.random() * 30
    ids = shard.ids
    cut = ids[len(ids) // 2] if breaks_off else ""
    begun = {"shard": shard.index, "attempt": 1, "card": "spyre:0", "host": f"pod-{shard.index}", "boot": "b"}
    whose = {"planned": len(ids), "fingerprint": plan.fingerprint, "run": RUN}
    yield {"t": now, "e": "shard_start", **begun, **whose, "back_end": "emulated", "torch": "2.13.0"}
    for group in shard.groups:
        yield {"t": now, "e": "group_start", "file": group.file, "tests": len(group.ids)}
        yield {"t": now + 5, "e": "group_ready", "file": group.file, "setup_s": 5.0}
        now += 5
        for name in group.ids:
            yield {"t": round(now, 3), "e": "start", "id": name, "log": 0}
            if name == cut:
                verdicts[name] = "infrastructure"
                verdicts |= dict.fromkeys(ids[ids.index(cut) + 1 :], "not_run")
                return
            seconds = round(draw.expovariate(2.5), 3)
            now += seconds
            outcome = draw.choices(OUTCOMES, WEIGHTS)[0]
            verdicts[name] = outcome
            said = {"message": "", "detail": ""}
            if outcome == "failed":
                said = {"message": f"AssertionError: {name} is not close", "detail": f"{name}\n{TRACEBACK}"}
            elif outcome == "skipped":
                said["message"] = f"not supported on spyre: {name.partition('[')[2]}"
            yield {"t": round(now, 3), "e": "end", "id": name, "outcome": outcome, "seconds": seconds, **said}
    yield {"t": round(now, 3), "e": "shard_end", "status": "done"}
