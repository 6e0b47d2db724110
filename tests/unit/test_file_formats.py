"""Every field of every file that is read, with every wrong type: refused in words, or of no consequence."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.bisect.record import read_record as read_bisect
from ci.bisect.record import write_record as write_bisect
from ci.config import load_settings
from ci.config.model import SettingsModel
from ci.core.errors import SpyreCiError
from ci.hud.dispatched import kept
from ci.hud.payload import Ways, ended_of
from ci.hud.server.allow_list import read_allow_list
from ci.image.stack import read_stack
from ci.jobs.record import JobRecord
from ci.jobs.record import read_record as read_job
from ci.jobs.record import write_record as write_job
from ci.jobs.spec import read_spec
from ci.jobs.transfer import MANIFEST, OWN, check_fetched
from ci.package.records import read_record as read_step
from ci.record.identity import RunIdentity, read_identity, write_identity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.quarantine import load_quarantine
from ci.report.results import read_results, read_summary, write_results, write_summary
from ci.report.reused import Reused, read_reused, write_reused
from ci.report.totals import CollectError, Summary
from ci.runner.health import HealthFiles
from ci.steps.folder import RunFolder, read_source, write_source
from ci.steps.run_settings import read_note
from ci.webhooks.model import read_webhooks
from test_selection.catalog import Catalog, CatalogTest, FileRecord, read_catalog, write_catalog
from test_selection.durations import Durations, read_durations, write_durations
from test_selection.files import read_json, schema_name, write_json
from test_selection.lock import Lock, read_lock, write_lock
from test_selection.plan import Group, Plan, Shard, fingerprint, read_plan, write_plan
from test_selection.rules import load_rules
from test_selection.selection import Expectation, Precision, Selection, read_selection, write_selection
from test_selection.selection_order import KINDS, SelectionOrder
from test_selection.suite_read import load_suite
from tests.unit.bisect.kit import record_of

# What reading damaged files may add to a process.
MOST_KIB = 300 << 10
ROOT = Path(__file__).parent.parent.parent
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
    order = SelectionOrder(tests=[TEST], must_run=0, cover=1, complete=dict.fromkeys(KINDS, 1))
    write_lock(path, Lock(
        torch="2.13", device="cpu", tree="t", scope="s", order=order, seconds=[1.0], history={ID: 0.5},
        weighed=False,
    ))  # fmt: skip


def identity(path: Path) -> None:
    write_identity(path.parent, RunIdentity(
        run="r", run_id=1, run_attempt=1, device="cpu", pytorch_version="2", pytorch_sha="s", stage=1,
        percent=5, started_at=1.0, reproduce=("spyre-ci", "pytorch"), commit="c", seed=1,
    ))  # fmt: skip


def summary(path: Path) -> None:
    identity(path.parent / "run.json")
    write_summary(path, Summary(
        identity=read_identity(path.parent), planned=1, verdicts=dict.fromkeys(Verdict, 1),
        collect_errors=(CollectError(file="b.py", error="e"),), exit_code=1, reasons=("a test failed",),
        completed_at=2.0, allow_collect_errors=True,
    ))  # fmt: skip


def of_json(kind: str, **content: Any) -> Callable[[Path], object]:
    return lambda path: write_json(path, kind, content)


def of_yaml(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


HASHES = [{"name": "x.whl", "sha256": "a" * 64}]
RECORD = JobRecord(
    name="j", namespace="n", kind="tests", run="r", image="i", fingerprint="f", store="s",
    shards=((0, 1),),
)  # fmt: skip
QUARANTINE = """
quarantine:
  - {test: "test_a.py::TestA::test_b", reason: r, issue: "https://e.org/1", owner: o, expires: 2026-12-01}
  - {pattern: "a.py::TestA::test_c.*", reason: r, issue: "https://e.org/1", owner: o, expires: 2026-12-01}
"""
RULES = """
rules:
  - {code: a, text: t, verdict: out, file: "**/x_*.py", issue: "https://e.org/1"}
  - code: b
    text: t
    verdict: out
    any: [{class: /X/}, {template: [/a/, b]}]
  - {code: rest, text: t, verdict: in}
"""
SUITE = """
test_suite_config:
  labels: [a]
  description: d
  files:
    - path: ${TORCH_ROOT}/test/test_a.py
      unlisted_test_mode: skip
      tests:
        - names: ["TestA::test_b", "*::test_c"]
          mode: xfail
          description: d
          no_grad: true
          tags: [t]
          edits:
            ops: {include: [{name: add, precision: {atol: 0.1, rtol: 1.0e-3}}], exclude: [sub]}
            dtypes: {include: [{name: float16, force_xfail: true}]}
            modules: {include: [{name: torch.nn.Linear, module_path: m}]}
            functions: {cpu_move: [assertEqual]}
          selectors: {include: [{has_ops: true, name_patterns: ["a*"]}], exclude: [{module_patterns: [m]}]}
  global:
    supported_dtypes: [float16]
    supported_ops: [{name: add, dtypes: [float16]}]
    supported_modules: [torch.nn.Linear]
"""
ALLOWED = """
L1: [torch-spyre/torch-spyre]
L2: [o/two, {o/three: me}]
L3: {spyre: {o/r: [me]}}
"""
# By file name: what writes one, and what reads it.
FORMATS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "catalog.jsonl.gz": (catalog, read_catalog),
    "selection.json": (selection, read_selection),
    "plan.json": (plan, read_plan),
    "selection.lock.gz": (lock, read_lock),
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
        lambda path: read_source(RunFolder(path=path.parent)),
    ),
    "summary.json": (summary, lambda path: (
        read_summary(path), ended_of(read_json(path, "summary"), Ways(environ={}), path=path)
    )),
    "run-settings.json": (
        of_json("run-settings", shards=[0], allow_collect_errors=True, run={"cards": 1}, back_end="b"),
        lambda path: read_note(RunFolder(path=path.parent)),
    ),
    "reused.json": (
        lambda path: write_reused(path.parent, Reused(
            repository="o/r", run_id=1, attempt=1, sha="s", pull_request=1, url="u", tree="t"
        )),
        lambda path: read_reused(path.parent),
    ),
    "dispatch.json": (
        of_json(
            "dispatch",
            client_payload={"delivery_id": "d", "event_type": "push"},
            check_run_id="1",
            run_id=1,
            run_attempt=1,
        ),
        lambda path: kept(path.parent),
    ),
    "job.json": (lambda path: write_job(path.parent, RECORD), lambda path: read_job(path.parent)),
    f"{OWN}/{MANIFEST}": (
        of_json("manifest", source="s3://b", whole=True, files={"a": {"size": 1, "etag": "b"}}),
        lambda path: check_fetched(path.parent.parent),
    ),
    "emulated:0.health.json": (
        of_json("card-health", strikes=[{"at": 1.0, "reason": "r", "run": "x"}], benched_until=2.0),
        lambda path: HealthFiles(folder=path.parent).read("emulated:0", 1.0),
    ),
    "bisect.json": (
        lambda path: write_bisect(path.parent, record_of(4)), lambda path: read_bisect(path.parent)
    ),
    "build.json": (
        of_json("package-build", project="p", commit="c", dirty=["x"], passed=True, files=HASHES),
        lambda path: (found := read_step(path.parent, "build"), found.hashes),
    ),
    "quarantine.yaml": (of_yaml(QUARANTINE), lambda path: load_quarantine(path, today=date(2026, 11, 25))),
    "rules.yaml": (of_yaml(RULES), load_rules),
    "suite.yaml": (of_yaml(SUITE), load_suite),
    "allow-list.yaml": (of_yaml(ALLOWED), read_allow_list),
    "stack.yaml": (of_yaml((ROOT / "images" / "stack.yaml").read_text(encoding="utf-8")), read_stack),
    "spec.yaml": (of_yaml((ROOT / "examples" / "train.yaml").read_text(encoding="utf-8")), read_spec),
    "webhooks.yaml": (
        of_yaml((ROOT / "jenkins" / "webhooks.yaml").read_text(encoding="utf-8")), read_webhooks
    ),
    "spyre-ci.yaml": (
        of_yaml((ROOT / "spyre-ci.yaml").read_text(encoding="utf-8")),
        lambda path: load_settings(path=path, environ={}, flags={}, cwd=path.parent),
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
    assert str(path.parents[path.parent.name == OWN]) in str(seen.where)
    assert seen.remedy
    assert len(str(seen)) < 2_000
    return True


def made(name: str, folder: Path) -> Path:
    """A sound file of a format."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    FORMATS[name][0](path)
    assert not refused_or_read(FORMATS[name][1], path)
    return path


def documents(path: Path) -> list[Any]:
    """What a file holds, document by document."""
    data = path.read_bytes()
    lines = gzip.decompress(data) if path.suffix == ".gz" else data
    if path.suffix == ".yaml":
        return [yaml.safe_load(lines)]
    several = ".jsonl" in path.name or ".lock" in path.name
    return list(map(json.loads, lines.splitlines())) if several else [json.loads(lines)]


def write(path: Path, rows: list[Any]) -> None:
    if path.suffix == ".yaml":
        path.write_text(yaml.safe_dump(rows[0], sort_keys=False), encoding="utf-8")
        return
    text = "\n".join(map(json.dumps, rows)).encode()
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "spyre-ci.yaml"])
def test_a_field_of_another_type_is_refused_or_of_no_consequence(name: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    sound = documents(path)
    refused = 0
    for number, document in enumerate(sound):
        for where in paths(document):
            for value in WRONG:
                write(path, [*sound[:number], changed(document, where, value), *sound[number + 1 :]])
                refused += refused_or_read(FORMATS[name][1], path)
    assert refused >= len(WRONG) - 2  # an empty table or nothing may be a file too


@pytest.mark.parametrize("section", SettingsModel.model_fields)
def test_a_setting_of_another_type_is_refused_or_of_no_consequence(section: str, tmp_path: Path) -> None:
    path = tmp_path / "spyre-ci.yaml"
    ours = yaml.safe_load((ROOT / path.name).read_text(encoding="utf-8"))
    refused = 0
    for every in (SettingsModel().model_dump(mode="json"), ours):
        for where in paths(every.get(section, {}), (section,)):
            for value in WRONG:
                written = value
                for key in reversed(where):  # the one setting and nothing beside it
                    written = [written] if isinstance(key, int) else {key: written}
                write(path, [written])
                refused += refused_or_read(FORMATS[path.name][1], path)
    assert refused


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_that_were_cut_or_changed_are_refused_or_of_no_consequence(name: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    sound = path.read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rnd = random.Random(name)  # noqa: S311  # seeded, so that a failure comes again
    for _ in range(150):
        path.write_bytes(sound[: rnd.randrange(len(sound))])
        refused_or_read(FORMATS[name][1], path)
        other = bytearray(sound)
        for _ in range(rnd.randint(1, 4)):
            other[rnd.randrange(len(other))] = rnd.randrange(256)
        path.write_bytes(other)
        refused_or_read(FORMATS[name][1], path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= MOST_KIB


BYTES = {
    "nothing": b"", "zeros": bytes(1_000), "another encoding": '{"schema": "ü"}'.encode("utf-16"),
    "half a sign": b'{"schema": "\xc3', "deep": b"[" * 200_000, "many digits": b"1" * 5_000,
    "a byte order mark": b"\xef\xbb\xbf{}",
}  # fmt: skip
# Files that may be missing, as such or as all their keys.
MAY_LACK = {
    "reused.json", "dispatch.json", "run-settings.json", f"{OWN}/{MANIFEST}", "emulated:0.health.json",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_that_are_no_such_file_are_refused(name: str, tmp_path: Path) -> None:
    read, path = FORMATS[name][1], made(name, tmp_path)
    for told, data in BYTES.items():
        for written in (data, gzip.compress(data), gzip.compress(data)[:-4]):
            path.write_bytes(written)
            empty = path.suffix == ".yaml" and told in {"nothing", "a byte order mark"} and written is data
            assert refused_or_read(read, path) or empty, told
    path.unlink()
    path.mkdir()
    assert refused_or_read(read, path) or name in MAY_LACK
    path.rmdir()
    os.mkfifo(path)
    try:
        read(path)
    except (OSError, SpyreCiError) as error:
        assert "regular file" in str(error) or "there is no" in str(error)  # noqa: PT017  # of two kinds
    else:
        assert name in MAY_LACK
    path.unlink()
    if path.suffix == ".gz":  # a bomb: what it unpacks to is never held
        bomb = io.BytesIO()
        with gzip.GzipFile(fileobj=bomb, mode="wb") as stream:
            stream.write(f'{{"schema": "{schema_name("x")}", "x": "'.encode())
            for _ in range(100):
                stream.write(bytes(1 << 20))
        path.write_bytes(bomb.getvalue())
        assert refused_or_read(read, path)
