"""A release is written once, whole, and read back as it was; nothing in the ledger is ever changed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.load import Settings, load_settings
from ci.core.errors import BadFileError, UsageError
from ci.pins.ledger import RecordedOtherwiseError, in_order, read_records, track_folder, write_record
from ci.pins.record import Parameter, Record, file_name

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def record(version: str = "1.0", **more: Any) -> Record:
    about: dict[str, Any] = {
        "track": "image",
        "version": version,
        "sha": "a" * 64,
        "source": "quay.io/spyre/runtime",
        "released_at": DAY,
        "recorded_at": DAY,
        "packages": {"torch": "2.13.0", "numpy": "2.1.0"},
        "direct": {"torch": "2.13.0", "flash-attn": None},
    }
    return Record.model_validate({**about, **more})


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "spyre-ci.yaml"
    path.write_text(text)
    return load_settings(path=path, environ={}, flags={}, cwd=tmp_path)


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    parameter = Parameter(name="x", kind="keyword-only", default="None")
    wanted = record(signatures={"a:f": (parameter,), "a:gone": None}, flags=("major",))
    path = write_record(tmp_path / "image", wanted)
    assert path.name == f"1.0-{'a' * 12}.json"
    assert read_records(tmp_path / "image") == [wanted]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_person_finds_packages_in_order(tmp_path: Path) -> None:
    path = write_record(tmp_path / "image", record())
    said = json.loads(path.read_text())
    assert next(iter(said)) == "schema"
    assert list(said["packages"]) == ["numpy", "torch"]


def test_the_same_release_again_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    path = write_record(folder, record())
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert write_record(folder, record(recorded_at=DAY + timedelta(days=1))) == path
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_another_content_of_the_same_release_is_refused_and_the_file_stays(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    path = write_record(folder, record())
    before = path.read_bytes()
    with pytest.raises(RecordedOtherwiseError, match=r"another content \(packages\)") as caught:
        write_record(folder, record(packages={"torch": "2.14.0"}))
    assert (caught.value.exit_code, caught.value.where) == (1, str(path))
    assert path.read_bytes() == before
    assert [one.name for one in folder.iterdir()] == [path.name]


def test_another_digest_under_the_same_tag_is_another_release(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    write_record(folder, record())
    write_record(folder, record(sha="b" * 64, released_at=DAY + timedelta(days=1)))
    assert [one.sha[0] for one in read_records(folder)] == ["a", "b"]


def test_releases_come_by_time_then_as_versions_go(tmp_path: Path) -> None:
    later = DAY + timedelta(days=1)
    told = [("0.1", later), ("1.10", DAY), ("latest", DAY), ("1.9", DAY), ("1.10rc1", DAY)]
    for version, at in told:
        write_record(tmp_path / "image", record(version, released_at=at))
    found = [one.version for one in read_records(tmp_path / "image")]
    assert found == ["1.9", "1.10rc1", "1.10", "latest", "0.1"]


def test_a_release_without_a_time_counts_from_when_it_was_read() -> None:
    dated, undated = record(), record(released_at=None, recorded_at=DAY - timedelta(days=1))
    assert sorted([dated, undated], key=in_order) == [undated, dated]


def test_a_folder_that_is_not_there_has_no_releases(tmp_path: Path) -> None:
    assert read_records(tmp_path / "none") == []


def test_events_and_what_was_left_half_written_are_no_records(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    write_record(folder, record())
    (folder / "events.jsonl").write_text("{}\n")
    (folder / ".new-x").mkdir()
    (folder / ".new-x" / "1.0-bbbbbbbbbbbb.json").write_text("{")
    assert len(read_records(folder)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"packages": 3}, "is no record: packages: "),
        ({"unknown": 3}, "is no record: unknown: "),
        ({"sha": "xyz"}, "is no record: sha: "),
        ({"schema": "spyre-ci/plan/1"}, "schema is 'spyre-ci/plan/1'"),
        ({"version": "2.0"}, r"is the record of image 2.0 \(aaaaaaaaaaaa\), which has another name"),
        ({"track": "other"}, r"is the record of other 1.0"),
    ],
)
def test_a_file_that_is_no_record_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = write_record(tmp_path / "image", record())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BadFileError, match=said) as caught:
        read_records(path.parent)
    assert caught.value.where == str(path)


def test_a_file_cut_short_is_named(tmp_path: Path) -> None:
    path = write_record(tmp_path / "image", record())
    path.write_text(path.read_text()[:40])
    with pytest.raises(BadFileError, match="cannot be read as JSON"):
        read_records(path.parent)
    with pytest.raises(BadFileError, match="cannot be read as JSON"):
        write_record(path.parent, record())


def test_a_ledger_is_beside_the_settings(tmp_path: Path) -> None:
    found = settings(tmp_path, "pins: {ledger: held, tracks: {a: {image: quay.io/a/b, direct: [torch]}}}")
    assert track_folder(found, "a") == tmp_path / "held" / "a"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("pins: {tracks: {a: {image: quay.io/a/b, direct: [torch]}}}", "known ones: a"),
        ("{}", "set one, with `image` or `package`"),
    ],
)
def test_a_track_that_is_not_there_is_an_error_with_those_that_are(
    tmp_path: Path, text: str, remedy: str
) -> None:
    with pytest.raises(UsageError, match="there is no track 'b'") as caught:
        track_folder(settings(tmp_path, text), "b")
    assert remedy in str(caught.value)


@given(version=st.text(max_size=300), sha=st.text("0123456789abcdef", min_size=64, max_size=64))
def test_whatever_a_release_is_called_its_file_is_in_its_folder(version: str, sha: str) -> None:
    name = file_name(version, sha)
    assert Path(name).name == name
    assert not name.startswith(".new-")
    assert len(name.encode()) <= 255
