"""Joining a share: what is refused, and what is said of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci.core.errors import FileSystemError, PlanMismatchError, SettingsError
from ci.runner.claims.joining import ClaimSettings, cut_digest, note_name, read_names
from ci.runner.claims.session import ClaimSession
from test_selection.pieces import Piece

ROWS = [
    [Piece(file="a.py", ids=("1", "2"), expected_s=1.0)],
    [Piece(file="a.py", ids=("3",), expected_s=1.0)],
]
BAD_URLS = [
    "redis://ci:s3cret@host:port/0",
    "redis://:s3/cret@host/0",
    "redis://:1234/s3cret@host/0",
    "redis://:s3#cret@host/0",
    "redis://:s3?cret@host/0",
    "redis://host/0?password=s3cret&db=x",
    "redis://host/0?nobody_knows=s3cret",
    "redis://:s3 cret/x@host:y/0",
]
OTHERWISE = [
    [Piece(file="a.py", ids=("1",), expected_s=1.0), Piece(file="a.py", ids=("2",), expected_s=1.0)],
    ROWS[1],
]


def claims(where: str, run: str = "nightly") -> ClaimSettings:
    return ClaimSettings(where=where, run=run, lease_s=9.0, clock=lambda: 0.0, say=lambda _: None)


def join(
    where: str, rows: list[list[Piece]] = ROWS, fingerprint: str = "f" * 64, run: str = "nightly"
) -> ClaimSession:
    return claims(where, run).join(fingerprint, rows, 1.0)


def test_hosts_with_one_plan_meet_and_runs_stay_apart(tmp_path: Path) -> None:
    first, second = join(str(tmp_path)), join(str(tmp_path))
    assert first.me != second.me
    assert (first.claim(0, ROWS[0][0]), second.claim(0, ROWS[0][0])) == (1, 0)
    assert join(str(tmp_path), run="weekly").claim(0, ROWS[0][0]) == 1


def test_another_plan_is_refused(tmp_path: Path) -> None:
    join(str(tmp_path))
    with pytest.raises(PlanMismatchError, match="other hosts run the plan ffffffffffff as 'nightly'") as told:
        join(str(tmp_path), fingerprint="e" * 64)
    assert "same plan.json" in str(told.value.remedy)


def test_the_same_plan_cut_by_other_durations_is_refused(tmp_path: Path) -> None:
    join(str(tmp_path))
    with pytest.raises(PlanMismatchError, match="cut the same plan into other pieces") as told:
        join(str(tmp_path), OTHERWISE)
    assert "durations.json.gz" in str(told.value.remedy)
    assert cut_digest(ROWS) != cut_digest(OTHERWISE)


def test_a_place_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run-nightly").mkdir()
    plan = tmp_path / "run-nightly" / "plan"
    plan.write_text("mine")
    with pytest.raises(FileSystemError, match="it contains files of another kind than a shared run's"):
        join(str(tmp_path))
    plan.unlink()
    for session in ("", "../../out", str(tmp_path / "out"), "0123456g"):
        plan.symlink_to(f"{'f' * 64}:{cut_digest(ROWS)}:{session}")
        with pytest.raises(FileSystemError, match="of another kind than a shared run"):
            join(str(tmp_path))
        plan.unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["run-nightly"]


def test_a_folder_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileSystemError, match="cannot be shared: Not a directory") as told:
        join(str(tmp_path / "file"))
    assert "symbolic links" in str(told.value.remedy)


def test_a_run_by_a_strange_name_stays_inside_the_folder(tmp_path: Path) -> None:
    join(str(tmp_path / "share"), run="../../out side")
    assert [path.name for path in tmp_path.iterdir()] == ["share"]


@pytest.mark.parametrize("where", ["http://host/x", "s3://bucket:secret@x"])
def test_an_address_of_something_else_is_refused_without_its_secrets(where: str) -> None:
    with pytest.raises(SettingsError, match="no folder and no Redis") as told:
        join(where)
    assert "secret" not in str(told.value)


def test_a_bad_url_of_a_redis_is_refused_without_its_password() -> None:
    pytest.importorskip("redis", reason="the package redis is not found")
    for where in BAD_URLS:
        with pytest.raises(SettingsError, match="not the URL of a Redis") as told:
            join(where)
        assert "s3cret" not in f"{told.value} {told.value.remedy}"
        assert "1234" not in str(told.value)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ci.runner.claims.redis", None)
    with pytest.raises(SettingsError, match="the package for it is not installed") as told:
        join("redis://host")
    assert "spyre-ci[redis]" in str(told.value.remedy)


def test_names_are_kept_and_what_is_cut_or_strange_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "run" / "share-names.txt"
    assert read_names(path) == frozenset()
    note_name(path, "a")
    path.write_bytes(path.read_bytes() + b"\xff\nhost-7-ab")
    note_name(path, "b")
    assert read_names(path) == {"a", "b", "\N{REPLACEMENT CHARACTER}", "host-7-ab"}


def test_a_name_that_cannot_be_noted_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "names").mkdir()
    with pytest.raises(FileSystemError, match="cannot be noted: Is a directory") as told:
        note_name(tmp_path / "names", "a")
    assert "space and the rights" in str(told.value.remedy)
