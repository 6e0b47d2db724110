"""The plan of a job, packed for its pods: one compressed file, in chunks that ConfigMaps hold.

It has the whole plan, the declared outcomes and known seconds of its tests, which shards each pod runs, and
the identity of the run. A pod makes its run folder of it.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError
from test_selection.ci_jobs import CiJob
from test_selection.durations import Durations, read_durations, write_durations
from test_selection.files import convert, read_json, schema_name, write_json
from test_selection.plan import KIND as PLAN_KIND
from test_selection.plan import plan_from_json, plan_to_json, read_plan
from test_selection.selection import KIND as SELECTION_KIND
from test_selection.selection import read_selection

KIND = "job-plan"
FILE = "plan.json.gz"
# A ConfigMap holds 1 MiB, https://kubernetes.io/docs/concepts/configuration/configmap/; the rest of the
# object needs room as well.
CHUNK_BYTES = 900 * 1024
# What unpacks to more was not packed here.
MOST_BYTES = 1 << 30
# What is the pod's own of an unpacked plan.
_OWN_FILE, _OWN_KIND = "pod.json", "pod"
_TABLES = ("tests", "files", "spread")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """What a pod runs.

    Attributes:
        run: the readable run id.
        shards: indices of its own shards.
        cards: number of its cards.
        pods: number of pods of the job.
    """

    run: str
    shards: tuple[int, ...]
    cards: int
    pods: int


def pack_plan(folder: Path, legs: Sequence[CiJob]) -> bytes:
    """The packed plan of a run; the same run gives the same bytes.

    Args:
        folder: the run's, with plan.json and run.json; selection, durations and source if they exist.
        legs: what each pod serves.

    Raises:
        MissingInputError: the plan or the run's identity is missing.
        BadFileError: a file cannot be used.
    """
    plan = read_plan(folder / "plan.json")
    content: dict[str, Any] = {
        "schema": schema_name(KIND),
        "pods": [list(leg.shards) for leg in legs],
        "cards": legs[0].cards,
        # The planner may have another torch than pods, which compare themselves with each other.
        "run": _bare(read_json(folder / "run.json", "run")) | {"pytorch_version": ""},
        "selection": {"stage": None, "percent": 100.0, "expectations": {}},
    }
    if (folder / "source.json").is_file():
        content["source"] = _fixed(_bare(read_json(folder / "source.json", "source")))
    if (folder / "selection.json").is_file():
        selection = read_selection(folder / "selection.json")
        declared = {name: one.as_json() for name, one in selection.expectations.items()}
        content["selection"] = {
            "stage": selection.stage, "percent": selection.percent, "expectations": declared,
        }  # fmt: skip
    durations = folder / "durations.json.gz"
    known = read_durations(durations) if durations.is_file() else Durations()
    # By position, without the names: those are most of the bytes.
    names = _names(plan_to_json(plan))
    content["durations"] = {
        table: [getattr(known, table).get(name) for name in names[table]] for table in _TABLES
    }
    content["plan"] = plan_to_json(plan)
    return gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0)


def chunks_of(packed: bytes) -> dict[str, bytes]:
    """The packed plan in files that a ConfigMap holds each."""
    starts = range(0, len(packed), CHUNK_BYTES)
    return {f"{FILE}.{number:03}": packed[at : at + CHUNK_BYTES] for number, at in enumerate(starts)}


def read_chunks(folder: Path) -> bytes:
    """The packed plan, from its chunks in a folder.

    Raises:
        MissingInputError: there are none.
    """
    found = sorted(folder.glob(f"{FILE}.*"))
    if not found:
        raise MissingInputError("there is no job plan", where=folder, remedy="submit the job again")
    return b"".join(path.read_bytes() for path in found)


def unpack_plan(packed: bytes, pod: int, into: Path, *, where: str) -> PodPlan:
    """Write the files of a pod's run folder.

    Args:
        packed: the plan.
        pod: its index.
        into: the run folder.
        where: the plan is from, for errors.

    Raises:
        BadFileError: it was damaged, or has no such pod.
    """
    content = _read(packed, where)
    try:
        plan = plan_from_json(content["plan"], where)
        own = PodPlan(
            run=str(content["run"]["run"]),
            shards=tuple(map(int, content["pods"][pod])),
            cards=int(content["cards"]),
            pods=len(content["pods"]),
        )
        if not own.shards or not all(plan.shards[index].groups for index in own.shards):
            raise ValueError(f"shards {own.shards!r:.80} are not in its plan")
        names = _names(content["plan"])
        known = {table: _known(names[table], content["durations"][table]) for table in _TABLES}
        into.mkdir(parents=True, exist_ok=True)
        write_json(into / "plan.json", PLAN_KIND, content["plan"])
        write_json(into / "selection.json", SELECTION_KIND, {**content["selection"], "ids": plan.ids})
        write_durations(into / "durations.json.gz", Durations(**known))
        write_json(into / "run.json", "run", content["run"])
        if "source" in content:
            write_json(into / "source.json", "source", content["source"])
        write_json(into / _OWN_FILE, _OWN_KIND, asdict(own))
        read_selection(into / "selection.json")
        read_durations(into / "durations.json.gz")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _bad(f"cannot be used by pod {pod}: {error}", where) from error
    return own


def read_pod_plan(folder: Path) -> PodPlan:
    """What the pod of an unpacked run folder runs.

    Raises:
        BadFileError: it was damaged.
    """
    path = folder / _OWN_FILE
    return convert(read_json(path, _OWN_KIND), PodPlan, where=path, remedy="remove the pod's folder")


def _read(packed: bytes, where: str) -> dict[str, Any]:
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            data = stream.read(MOST_BYTES + 1)
        content = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, EOFError, zlib.error, OSError, RecursionError) as error:
        raise _bad(f"cannot be read: {error}", where) from error
    if not isinstance(content, dict) or content.get("schema") != schema_name(KIND):
        raise _bad(f"is not a {schema_name(KIND)} of at most {MOST_BYTES >> 20:,} MiB", where)
    return content


def _names(plan: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names whose seconds are known, by table, in the plan's order."""
    groups = [group for shard in plan["shards"] for group in shard["groups"]]
    ids = [name for group in groups for name in group["ids"]]
    return {"tests": ids, "spread": ids, "files": sorted({group["file"] for group in groups})}


def _known(names: Iterable[str], seconds: Iterable[float | None]) -> dict[str, float]:
    return {name: one for name, one in zip(names, seconds, strict=True) if one is not None}


def _fixed(source: Mapping[str, Any]) -> dict[str, Any]:
    """The source of the tests at the commit they were planned at: a branch moves while pods wait for cards.

    The op suite's hash names the planner's torch, and a tree without Git may be another one in the image.
    """
    where, sha = source.get("where"), str(source.get("sha", ""))
    if isinstance(where, str) and where.startswith("git+") and _COMMIT.fullmatch(sha):
        return {**source, "where": f"{where.rpartition('@')[0]}@{sha}"}
    return {**source, "sha": ""}


def _bare(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "schema"}


def _bad(what: str, where: str) -> BadFileError:
    return BadFileError(what, where=where, remedy="submit the job again")
