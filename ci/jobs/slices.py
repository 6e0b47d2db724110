"""A job's slices: for each pod a file of what it has to know of the run, and the run folder made of it there.

A slice is `slice-<pod>.json.gz`: the pod's shards of the plan, the declared outcomes and the seconds of their
tests, and who the run is. Pods that share take all of a job's slices and have the whole plan of them. Where
they are too many for ConfigMaps, they go by the job's store.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.core.object_store import Bucket
from ci.jobs.job import Job
from ci.jobs.layout import INPUTS
from test_selection.ci_jobs import CiJob
from test_selection.durations import Durations, read_durations, write_durations
from test_selection.files import atomic_writer, read_json, schema_name, write_json
from test_selection.plan import KIND as PLAN_KIND
from test_selection.plan import Plan, plan_from_json, plan_to_json, read_plan
from test_selection.selection import KIND as SELECTION_KIND
from test_selection.selection import read_selection
from test_selection.shard_subset import merged, slice_of

KIND = "job-slice"
NAME = re.compile(r"slice-(\d{4,6})\.json\.gz")
# Of a whole job at most; what unpacks to more was not made here.
MOST_BYTES = 1 << 30
# Files of a run folder that are handed on as they are, by the schema each has.
_AS_IT_IS = {"run": "run.json", "source": "source.json"}
# Who plans without a card has another torch than pods have; a pod that goes on compares itself with pods.
_OF_THE_PLANNER = {"run": {"pytorch_version": ""}}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REMEDY = "submit the job anew"
# Slices are small, so that the endpoint's answers are what takes time.
AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a pod is to do.

    Attributes:
        run: the readable run id.
        shards: indices of the pod's own.
        cards: how many the pod has.
        pods: how many the job has.
    """

    run: str
    shards: tuple[int, ...]
    cards: int
    pods: int


def slice_name(pod: int) -> str:
    """The file of a pod's slice."""
    return f"slice-{pod:04}.json.gz"


def make_slices(folder: Path, legs: Sequence[CiJob]) -> dict[str, bytes]:
    """A slice for each pod, by file name; the same run gives the same bytes.

    Args:
        folder: the run's, with plan.json and run.json; selection, durations and source where they are there.
        legs: what each pod serves.

    Raises:
        MissingInputError: the plan or the run's identity is not there.
        BadFileError: a file cannot be used.
    """
    plan = read_plan(folder / "plan.json")
    common = {key: _bare(read_json(folder / name, key)) for key, name in _AS_IT_IS.items() if key == "run"}
    if (folder / _AS_IT_IS["source"]).is_file():
        common["source"] = _held(_bare(read_json(folder / _AS_IT_IS["source"], "source")))
    selection = _selection(folder)
    durations = folder / "durations.json.gz"
    known = read_durations(durations) if durations.is_file() else Durations()
    made = {}
    for pod, leg in enumerate(legs):
        ids = [name for index in leg.shards for name in plan.shards[index].ids]
        files = {group.file for index in leg.shards for group in plan.shards[index].groups}
        content = {
            "schema": schema_name(KIND),
            "pod": pod,
            "pods": len(legs),
            "cards": leg.cards,
            "shards": list(leg.shards),
            "plan": slice_of(plan, leg.shards),
            "selection": _part_of(selection, ids),
            "durations": _known(known, ids, files),
            **common,
        }
        made[slice_name(pod)] = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0)
    return made


def _held(source: Mapping[str, Any]) -> dict[str, Any]:
    """Where the tests are, by the commit they were planned at: a branch moves while pods wait for cards.

    The op suite's hash names the planner's torch, and a tree without Git may be another one in the image.
    """
    where, sha = source.get("where"), str(source.get("sha", ""))
    if isinstance(where, str) and where.startswith("git+") and _COMMIT.fullmatch(sha):
        return {**source, "where": f"{where.rpartition('@')[0]}@{sha}"}
    return {**source, "sha": ""}


def _selection(folder: Path) -> dict[str, Any]:
    path = folder / "selection.json"
    if not path.is_file():
        return {"stage": None, "percent": 100.0, "expectations": {}}
    found = read_selection(path)
    expectations = {name: one.as_json() for name, one in found.expectations.items()}
    return {"stage": found.stage, "percent": found.percent, "expectations": expectations}


def _part_of(selection: Mapping[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    declared = selection["expectations"]
    return {
        **selection,
        "expectations": {name: declared[name] for name in ids if name in declared},
        "ids": ids,
    }


def _known(known: Durations, ids: Sequence[str], files: Collection[str]) -> dict[str, dict[str, float]]:
    tables = {
        "tests": (known.tests, ids),
        "files": (known.files, sorted(files)),
        "spread": (known.spread, ids),
    }
    return {
        name: {one: table[one] for one in wanted if one in table} for name, (table, wanted) in tables.items()
    }


def open_slice(inputs: Path, pod: int, into: Path, *, share: bool, source: str | None = None) -> Opened:
    """Write the files of a pod's run folder.

    Args:
        inputs: the folder of slices.
        pod: its index.
        into: the run folder.
        share: the pod takes over others' work, so it has the whole plan.
        source: where the tests are in the image; None: where they were planned.

    Raises:
        MissingInputError: a slice is not there.
        BadFileError: one was changed, or is another's.
    """
    own = _read(inputs, pod)
    if source is not None:
        own["source"] = {"where": source, "sha": ""}
    slices = [own]
    if share:
        slices = [own if at == pod else _read(inputs, at) for at in range(own["pods"])]
    where = [inputs / slice_name(one["pod"]) for one in slices]
    try:
        plans = [(one["plan"], path) for one, path in zip(slices, where, strict=True)]
        plan = merged(plans) if share else plan_from_json(own["plan"], where[0])
        opened = Opened(
            run=str(own["run"]["run"]), shards=tuple(map(int, own["shards"])), cards=int(own["cards"]),
            pods=len(slices) if share else int(own["pods"]),
        )  # fmt: skip
        _write(into, slices, plan, share=share)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _bad(f"a key is missing or of the wrong kind: {error}", inputs / slice_name(pod)) from error
    _check(opened, plan, inputs / slice_name(pod))
    return opened


def _check(opened: Opened, plan: Plan, where: Path) -> None:
    here = {shard.index for shard in plan.shards if shard.groups}
    if not opened.shards or not set(opened.shards) <= here:
        raise _bad(f"its shards {opened.shards!r:.80} are not in its plan", where)


def _write(into: Path, slices: Sequence[Mapping[str, Any]], plan: Plan, *, share: bool) -> None:
    """The files that `spyre-ci run` reads, all but the plan of what is known of the slices' tests."""
    own = next(iter(slices))
    into.mkdir(parents=True, exist_ok=True)
    content = plan_to_json(plan) if share else own["plan"]
    write_json(into / "plan.json", PLAN_KIND, content)
    selection = {**own["selection"], "ids": plan.ids, "expectations": {}}
    durations: dict[str, dict[str, float]] = {"tests": {}, "files": {}, "spread": {}}
    for one in slices:
        selection["expectations"] |= one["selection"]["expectations"]
        for name in durations:
            durations[name] |= one["durations"][name]
    write_json(into / "selection.json", SELECTION_KIND, selection)
    write_durations(into / "durations.json.gz", Durations(**durations))
    for key, name in _AS_IT_IS.items():
        if key in own:
            write_json(into / name, key, own[key] | _OF_THE_PLANNER.get(key, {}))
    read_selection(into / "selection.json")
    read_durations(into / "durations.json.gz")


def _read(inputs: Path, pod: int) -> dict[str, Any]:
    path = inputs / slice_name(pod)
    try:
        with gzip.open(path) as stream:
            data = stream.read(MOST_BYTES + 1)
        content = json.loads(data) if len(data) <= MOST_BYTES else None
    except FileNotFoundError as error:
        raise MissingInputError(
            f"there is no slice for pod {pod}", where=path, remedy=f"{_REMEDY}; see docs/jobs.md"
        ) from error
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile, RecursionError) as error:
        raise _bad(f"cannot be read: {error}", path) from error
    if not isinstance(content, dict) or content.get("schema") != schema_name(KIND):
        raise _bad(f"is no {schema_name(KIND)} of at most {MOST_BYTES >> 20:,} MiB", path)
    if content.get("pod") != pod or type(content.get("pods")) is not int:
        raise _bad(f"is of pod {content.get('pod')!r:.20}, not of pod {pod}", path)
    return content


def _bare(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "schema"}


def _bad(what: str, where: Path) -> BadFileError:
    return BadFileError(what, where=where, remedy=_REMEDY)


def put_inputs(job: Job, seen_at: Path | None) -> str:
    """Put the slices where pods read them; returns where that is.

    Args:
        job: whose slices go by its store.
        seen_at: the store's volume as a folder here; None: it is not mounted here.

    Raises:
        UsageError: the store is a volume, and nobody says where it is seen.
        CommandError: the bucket refuses.
    """
    store = job.spec.store
    if store is not None and store.bucket is not None:
        bucket = Bucket(store.bucket, where="store.bucket")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            put = [
                pool.submit(bucket.put, f"{job.run}/{INPUTS}/{name}", content)
                for name, content in job.files.items()
            ]
            for one in put:
                one.result()
        return bucket.address(f"{job.run}/{INPUTS}")
    if seen_at is None:
        size = sum(map(len, job.files.values()))
        raise UsageError(
            f"the {len(job.files):,} slices have {size:,} bytes, more than ConfigMaps take",
            where="--store",
            remedy="name the folder where the store's volume is mounted here, or give the spec store.bucket",
        )
    folder = seen_at / job.run / INPUTS
    for name, content in job.files.items():
        with atomic_writer(folder / name) as stream:
            stream.write(content)
    return str(folder)
