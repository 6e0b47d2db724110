"""Every field of every file of a run, with every wrong type: refused in words for people, or no matter."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import SpyreCiError
from ci.record.identity import RunIdentity, read_identity, write_identity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import read_results, write_results
from ci.steps.folder import RunFolder, read_source, read_source_files, write_source
from test_selection.catalog import Catalog, CatalogTest, FileRecord, read_catalog, write_catalog
from test_selection.durations_file import Durations, read_durations, write_durations
from test_selection.files import schema_name
from test_selection.ladder import KINDS, Ladder
from test_selection.lock import Lock, read_lock, write_lock
from test_selection.plan import Group, Plan, Shard, fingerprint, read_plan, write_plan
from test_selection.selection import Expectation, Precision, Selection, read_selection, write_selection

ID = "test_a.py::TestA::test_b[dtype=f,op=add]"
WRONG: list[Any] = [
    None, True, -1, 1.5, float("inf"), 10**400, "", "x", "\ud800", "f" * 5_000, [], [None], [[]], ["x"], {},
    {"x": None}, {"": []},
]  # fmt: skip
TEST = CatalogTest(
    id=ID, node="n", file="test_a.py", cls="TestA", template="test_b", op="add", dtype="f", markers=("slow",)
)


def catalog(path: Path) -> None:
    files = {"test_a.py": FileRecord(collect_s=1.0, error=None, note="n")}
    write_catalog(path, Catalog(pytorch="2.13", device="cpu", files=files, tests=[TEST]))


def selection(path: Path) -> None:
    declared = Expectation(
        mode="xfail",
        reason="r",
        precision=Precision(atol=1.0, rtol=None),
        no_grad=True,
        seed=1,
        cpu_move=("a",),
    )
    found = Selection(stage=1, percent=5, ids=[ID], expectations={ID: declared}, collect_errors={"b.py": "e"})
    write_selection(path, found)


def plan(path: Path) -> None:
    shards = (Shard(index=0, expected_s=1, groups=(Group(file="test_a.py", ids=(ID,)),)),)
    write_plan(path, Plan(
        fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards, seed=1
    ))  # fmt: skip


def lock(path: Path) -> None:
    ladder = Ladder(tests=[TEST], must_run=0, cover=1, complete=dict.fromkeys(KINDS, 1))
    write_lock(path, Lock(
        torch="2.13", device="cpu", tree="t", scope="s", ladder=ladder, seconds=[1.0], history={ID: 0.5},
        weighed=False,
    ))  # fmt: skip


def identity(path: Path) -> None:
    write_identity(path.parent, RunIdentity(
        run="r", run_id=1, run_attempt=1, device="cpu", pytorch_version="2", pytorch_sha="s", stage=1,
        percent=5, started_at=1.0, reproduce=("spyre-ci", "pytorch"), commit="c", seed=1,
    ))  # fmt: skip


# By file name: what writes one, and what reads it.
FORMATS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "catalog.jsonl.gz": (catalog, read_catalog),
    "selection.json": (selection, read_selection),
    "plan.json": (plan, read_plan),
    "ladder.lock.gz": (lock, read_lock),
    "durations.json.gz": (
        lambda path: write_durations(path, Durations(
            tests={ID: 1.0}, files={"f": 1.0}, spread={ID: 1.0}, classes={"f::C": 1.0}
        )),
        read_durations,
    ),
    "run.json": (identity, lambda path: read_identity(path.parent)),
    "results.jsonl.gz": (
        lambda path: write_results(path, "r", [
            Result(id=ID, verdict=Verdict.FAILED, seconds=1.0, file="f", message="m", attempts=2, card="c")
        ]),
        read_results,
    ),
    "source.json": (
        lambda path: write_source(RunFolder(path=path.parent), where="w", sha="s", files=["a.py"]),
        lambda path: (
            read_source(RunFolder(path=path.parent)), read_source_files(RunFolder(path=path.parent))
        ),
    ),
}  # fmt: skip


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of a document stands, the whole included."""
    yield above
    for key, one in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from paths(one, (*above, key))


def changed(document: Any, where: tuple[Any, ...], value: Any) -> Any:
    if not where:
        return value
    found = copy.deepcopy(document)
    within = found
    for key in where[:-1]:
        within = within[key]
    within[where[-1]] = value
    return found


def refused_or_read(read: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is refused, in words for people; anything but the user's error fails the test."""
    try:
        read(path)
    except SpyreCiError as error:
        seen = error
    else:
        return False
    assert str(path.parent) in str(seen.where)
    assert seen.remedy
    assert len(str(seen)) < 2_000
    return True


@pytest.mark.parametrize("name", FORMATS)
def test_a_field_of_another_type_is_refused_or_of_no_consequence(name: str, tmp_path: Path) -> None:
    write, read = FORMATS[name]
    path = tmp_path / name
    write(path)
    assert not refused_or_read(read, path)
    data = path.read_bytes()
    lines = gzip.decompress(data) if name.endswith(".gz") else data
    documents = (
        list(map(json.loads, lines.splitlines()))
        if ".jsonl" in name or ".lock" in name
        else [json.loads(lines)]
    )
    refused = 0
    for number, document in enumerate(documents):
        for where in paths(document):
            for value in WRONG:
                rows = [*documents[:number], changed(document, where, value), *documents[number + 1 :]]
                text = "\n".join(map(json.dumps, rows)).encode()
                path.write_bytes(gzip.compress(text, 1) if name.endswith(".gz") else text)
                refused += refused_or_read(read, path)
    assert refused > len(WRONG)


BYTES = {
    "nothing": b"", "zeros": bytes(1_000), "another encoding": '{"schema": "ü"}'.encode("utf-16"),
    "half a sign": b'{"schema": "\xc3', "deep": b"[" * 200_000, "many digits": b"1" * 5_000,
    "a byte order mark": b"\xef\xbb\xbf{}",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_that_are_no_such_file_are_refused(name: str, tmp_path: Path) -> None:
    read, path = FORMATS[name][1], tmp_path / name
    packed = name.endswith(".gz")
    for data in BYTES.values():
        for written in (data, gzip.compress(data), gzip.compress(data)[:-4]):
            path.write_bytes(written)
            assert refused_or_read(read, path)
    path.unlink()
    path.mkdir()
    assert refused_or_read(read, path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is no regular file"):
        read(path)
    path.unlink()
    if packed:  # a bomb: what it unpacks to is never held
        bomb = io.BytesIO()
        with gzip.GzipFile(fileobj=bomb, mode="wb") as stream:
            stream.write(f'{{"schema": "{schema_name("x")}", "x": "'.encode())
            for _ in range(100):
                stream.write(bytes(1 << 20))
        path.write_bytes(bomb.getvalue())
        assert refused_or_read(read, path)
