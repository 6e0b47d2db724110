from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from packaging.tags import parse_tag
from packaging.version import Version

from ci.config.package_model import Index
from ci.package.artifacts import Artifact
from ci.package.fitness import taken_by, verified
from ci.package.project import Source
from ci.package.records import Record

NAME = "spyre_demo-1.0-py3-none-linux_x86_64.whl"
WHEEL = Artifact(
    path=Path(NAME),
    kind="wheel",
    name="spyre-demo",
    version=Version("1.0"),
    tags=parse_tag("py3-none-linux_x86_64"),
    sha256="a" * 64,
    size=3 << 20,
)
RECORD = Record(
    step="verify",
    project="spyre-demo",
    commit="c" * 40,
    passed=True,
    details={"files": [{"name": NAME, "sha256": "a" * 64, "size": 1}]},
)
SOURCE = Source(commit="c" * 40)
ANY = Index(upload="https://index/", simple="https://index/simple/")


def failed(record: Record | None, source: Source = SOURCE, project: str = "spyre-demo") -> list[str]:
    found = verified([WHEEL], record, source, project)
    return [f"{one.check}: {one.seen}" for one in found if not one.passed]


def test_what_was_verified_at_this_commit_may_go() -> None:
    assert failed(RECORD) == []


def test_what_nobody_verified_may_not() -> None:
    assert failed(None) == ["verified: nothing says so"]


def test_what_failed_may_not() -> None:
    assert failed(replace(RECORD, passed=False)) == ["verified: a check failed"]


def test_a_record_of_another_project_verifies_nothing() -> None:
    assert failed(replace(RECORD, project="spyre-other")) == ["verified: every check passed"]


def test_files_of_another_project_may_not() -> None:
    assert "project: spyre-demo" in failed(RECORD, project="spyre-other")


def test_a_changed_file_is_told_with_both_hashes() -> None:
    other = replace(RECORD, details={"files": [{"name": NAME, "sha256": "b" * 64}]})
    assert failed(other) == [f"{NAME}: sha256 {'a' * 64}, verified was {'b' * 64}"]


def test_a_record_that_names_no_files_verifies_none() -> None:
    odd: list[object] = [None, "x", [], [1], [{}]]
    for files in odd:
        assert failed(replace(RECORD, details={"files": files})) == [
            f"{NAME}: was not among what was verified"
        ]


def test_another_commit_may_not() -> None:
    assert failed(RECORD, Source(commit="d" * 40)) == [f"commit: verified {'c' * 12}, checked out {'d' * 12}"]
    assert failed(RECORD, Source(commit="")) == [f"commit: verified {'c' * 12}, checked out no commit"]


def test_a_checkout_that_differs_from_its_commit_may_not() -> None:
    assert failed(RECORD, Source(commit="c" * 40, dirty=("a", "b"))) == [
        "checkout: differs from its commit: a, b"
    ]
    assert failed(replace(RECORD, dirty=("a", "b", "c", "d"))) == [
        "checkout when it was built or verified: differs from its commit: a, b, c and 1 more"
    ]


def refused(index: Index, *artifacts: Artifact) -> list[str]:
    return [one.remedy for one in taken_by(artifacts or [WHEEL], "stage", index) if not one.passed]


def test_an_index_that_takes_all_takes_all() -> None:
    assert refused(ANY, replace(WHEEL, version=Version("1.0.dev1+gabc"))) == []


def test_local_versions_linux_tags_and_large_files_go_where_they_are_taken() -> None:
    strict = ANY.model_copy(update={"local_versions": False, "linux_tags": False, "max_mib": 2})
    assert refused(strict, replace(WHEEL, version=Version("1.0.dev1+gabc"))) == [
        "stage takes no local versions: spyre-ci package build --index stage makes one without",
        "stage wants a manylinux tag: set package.repair: true and build again",
        "stage takes 2 MiB: leave out what need not be in it",
    ]
    assert refused(strict, replace(WHEEL, tags=parse_tag("py3-none-manylinux_2_28_x86_64"), size=9)) == []
