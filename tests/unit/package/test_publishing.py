"""Which files may be published, and what is noted of a release while it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import parse_tag, sys_tags
from packaging.version import Version

from ci.config.package_model import Index
from ci.core.errors import CommandError
from ci.package import proving
from ci.package.account import UnfinishedError
from ci.package.artifacts import Artifact
from ci.package.asking import Asker
from ci.package.credentials import Credentials
from ci.package.listing import Listed
from ci.package.project import Source
from ci.package.proving import Prover
from ci.package.publishing import Publisher, Release, note_path, taken_by, verified
from ci.package.records import Record

NAME = "spyre_demo-1.0.tar.gz"
SDIST = Artifact(
    path=Path(NAME), kind="sdist", name="spyre-demo", version=Version("1.0"), sha256="a" * 64, size=1
)


def publisher(monkeypatch: pytest.MonkeyPatch, records: Path) -> Publisher:
    """One whose index has everything already."""
    page = [Listed(filename=NAME, url="https://index/x", sha256="a" * 64)]
    monkeypatch.setattr(Asker, "listed", lambda *_, **__: page)
    index = Index(upload="https://index/", simple="https://index/simple")
    return Publisher(
        asker=Asker(name="stage", index=index),
        gate=lambda *_: None,
        credentials=lambda: Credentials(user="x"),
        records=records,
        environ={},
        constraints=(),
        timeout_s=1,
        now=lambda: 0,
        say=lambda _: None,
    )


def proves(monkeypatch: pytest.MonkeyPatch, *, well: bool) -> list[int]:
    """What is proved from now on; a list that grows each time."""
    calls = []

    def prove(_self: Prover, _artifacts: Sequence[Artifact]) -> list[str]:
        calls.append(1)
        if not well:
            raise UnfinishedError("does not show all")
        return [NAME]

    monkeypatch.setattr(Prover, "prove", prove)
    return calls


def noted(records: Path) -> tuple[bool, bool]:
    told = json.loads(note_path(records, "stage").read_text())
    return told["complete"], told["proved"]


def test_only_what_was_proved_is_noted_as_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, release = publisher(monkeypatch, tmp_path), Release(artifacts=[SDIST], commit="c")
    proves(monkeypatch, well=False)
    with pytest.raises(UnfinishedError):
        made.publish(release)
    assert noted(tmp_path) == (False, False)
    calls = proves(monkeypatch, well=True)
    assert made.publish(release)["complete"] is True
    assert noted(tmp_path) == (True, True)
    assert made.publish(release)["proved"] is True
    assert len(calls) == 1


def test_a_proof_of_before_that_was_lost_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, release = publisher(monkeypatch, tmp_path), Release(artifacts=[SDIST], commit="c")
    proves(monkeypatch, well=True)
    made.publish(release)
    path = note_path(tmp_path, "stage")
    path.write_text(json.dumps({**json.loads(path.read_text()), "proved": False}))
    calls = proves(monkeypatch, well=True)
    made.publish(release)
    assert len(calls) == 1


@pytest.mark.parametrize("files", [5, None, ["x"]])
def test_a_damaged_note_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: object
) -> None:
    made, release = publisher(monkeypatch, tmp_path), Release(artifacts=[SDIST], commit="c")
    proves(monkeypatch, well=True)
    made.publish(release)
    path = note_path(tmp_path, "stage")
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": files}))
    calls = proves(monkeypatch, well=True)
    assert made.publish(release)["complete"] is True
    assert calls == [1]
    assert noted(tmp_path) == (True, True)


def test_a_dry_run_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = publisher(monkeypatch, tmp_path).publish(Release(artifacts=[SDIST], commit="c"), dry_run=True)
    assert (told["complete"], told["proved"]) == (False, False)
    assert not note_path(tmp_path, "stage").exists()


def test_pip_says_no_password_of_its_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = Artifact(
        path=tmp_path / "x.whl", kind="wheel", name="x", version=Version("1.0"),
        tags=frozenset(sys_tags()), sha256="a" * 64, size=1,
    )  # fmt: skip

    def fails(*_: object, **__: object) -> None:
        raise CommandError("host='me', port='hun'")

    monkeypatch.setattr(proving, "passing", fails)
    index = Index(upload="https://index/", simple="https://index/simple")
    environ = {"PIP_INDEX_URL": "https://me:hun/ter2@index/"}
    prover = Prover(
        asker=Asker(name="stage", index=index), environ=environ, constraints=(), timeout_s=1, say=print
    )
    with pytest.raises(UnfinishedError) as caught:
        prover._installed([wheel], tmp_path)
    assert "hun" not in str(caught.value)


WHEEL_NAME = "spyre_demo-1.0-py3-none-linux_x86_64.whl"
WHEEL = Artifact(
    path=Path(WHEEL_NAME),
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
    details={"files": [{"name": WHEEL_NAME, "sha256": "a" * 64, "size": 1}]},
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
    other = replace(RECORD, details={"files": [{"name": WHEEL_NAME, "sha256": "b" * 64}]})
    assert failed(other) == [f"{WHEEL_NAME}: sha256 {'a' * 64}, verified was {'b' * 64}"]


def test_a_record_that_names_no_files_verifies_none() -> None:
    odd: list[object] = [None, "x", [], [1], [{}]]
    for files in odd:
        assert failed(replace(RECORD, details={"files": files})) == [
            f"{WHEEL_NAME}: was not among what was verified"
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
