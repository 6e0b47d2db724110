from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci.config.package_model import Index
from ci.errors import BadFileError, UsageError
from ci.package.asking import Asker
from ci.package.listing import Listed
from ci.package.promoting import (
    NotCommittedError,
    NotProvedError,
    YankedError,
    fetched,
    from_note,
    from_release,
    known_of,
    refuse_changed,
    refuse_other,
)
from ci.package.records import Record
from test_selection.files import write_json

NAME = "spyre_demo-1.0-py3-none-any.whl"
GOOD: dict[str, Any] = {
    "project": "Spyre_Demo",
    "version": "1.0",
    "commit": "c" * 40,
    "files": [{"name": NAME, "sha256": "A" * 64, "size": 1}],
}


def test_a_release_is_known_by_its_files_and_hashes() -> None:
    known = known_of(GOOD, Path("release.json"))
    assert (known.project, str(known.version), known.commit) == ("spyre-demo", "1.0", "c" * 40)
    assert known.files == {NAME: "a" * 64}


def test_a_release_json_names_the_commit_of_its_source() -> None:
    told = {key: one for key, one in GOOD.items() if key != "commit"}
    assert known_of({**told, "source": {"commit": "d" * 40}}, Path("release.json")).commit == "d" * 40


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": None}, "a key is missing or of the wrong kind"),
        ({"files": None}, "a key is missing or of the wrong kind"),
        ({"files": [{"name": NAME}]}, "a key is missing or of the wrong kind"),
        ({"files": []}, "it names no file"),
        ({"files": [{"name": "x.txt", "sha256": "a" * 64}]}, "'x.txt' is no file of spyre-demo 1.0"),
        ({"files": [{"name": f"../{NAME}", "sha256": "a" * 64}]}, "is no file of spyre-demo 1.0"),
        ({"files": [{"name": NAME.replace("1.0", "1.1"), "sha256": "a" * 64}]}, "is no file of spyre-demo"),
        ({"files": [{"name": NAME, "sha256": "a"}]}, f"{NAME} has no SHA-256"),
    ],
)
def test_what_names_no_release_is_told(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadFileError) as caught:
        known_of({**GOOD, **change}, Path("release.json"))
    assert said in str(caught.value)
    assert "name the record of what was published, or a release.json" in str(caught.value)


def test_what_is_no_table_names_no_release() -> None:
    with pytest.raises(BadFileError, match="of the wrong kind"):
        known_of([], Path("release.json"))


def test_what_is_half_published_is_not_promoted(tmp_path: Path) -> None:
    write_json(tmp_path / "published-stage.json", "package-published", {**GOOD, "complete": False})
    with pytest.raises(BadFileError) as caught:
        from_note(tmp_path, "stage")
    assert "not everything of 1.0 was published on stage" in str(caught.value)
    assert "spyre-ci package publish --index stage" in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        {"complete": True},
        {"complete": True, "proved": False},
        {"complete": False, "proved": False, "state": {"uploaded": [NAME], "absent": [], "unsure": []}},
    ],
)
def test_what_nobody_saw_to_work_on_the_stage_is_not_promoted(tmp_path: Path, said: dict[str, Any]) -> None:
    write_json(tmp_path / "published-stage.json", "package-published", {**GOOD, **said})
    with pytest.raises(NotProvedError) as caught:
        from_note(tmp_path, "stage")
    assert caught.value.exit_code == 1
    assert "nobody saw that stage gives 1.0 as it was published" in str(caught.value)
    assert "uploads nothing twice: spyre-ci package publish --index stage" in str(caught.value)


def test_what_was_shown_to_work_is(tmp_path: Path) -> None:
    note = {**GOOD, "complete": True, "proved": True}
    write_json(tmp_path / "published-stage.json", "package-published", note)
    assert from_note(tmp_path, "stage").files == {NAME: "a" * 64}


def test_a_file_that_is_yanked_on_the_stage_is_not_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(upload="https://index/", simple="https://index/simple")
    there = Listed(filename=NAME, url="https://index/x", sha256="a" * 64, yanked="broken on cards")
    monkeypatch.setattr(Asker, "listed", lambda *_: [there])
    with pytest.raises(YankedError) as caught:
        fetched(Asker(name="stage", index=index), known_of(GOOD, Path("release.json")), tmp_path)
    assert caught.value.exit_code == 1
    assert f"{NAME} (broken on cards) is yanked" in str(caught.value)
    assert "take that back on the stage" in str(caught.value)


def test_a_file_made_by_hand_is_no_release_json(tmp_path: Path) -> None:
    path = tmp_path / "release.json"
    path.write_text(json.dumps(GOOD))
    with pytest.raises(BadFileError, match="schema"):
        from_release(path, "stage", tmp_path)


PROVED = {**GOOD, "complete": True, "proved": True}


def released(folder: Path, records: Path) -> dict[str, str]:
    """The files that a release.json in a folder names, where the stage's record is asked of two places."""
    write_json(folder / "release.json", "release", {**GOOD, "source": {"commit": "c" * 40}})
    return from_release(folder / "release.json", "stage", records).files


@pytest.mark.parametrize("place", [".", "records"])
def test_a_release_json_is_promoted_where_the_stage_was_seen_to_give_it(tmp_path: Path, place: str) -> None:
    write_json(tmp_path / place / "published-stage.json", "package-published", PROVED)
    assert released(tmp_path, tmp_path / "records") == {NAME: "a" * 64}


def test_a_release_json_that_nothing_is_noted_of_is_not_promoted(tmp_path: Path) -> None:
    with pytest.raises(NotProvedError) as caught:
        released(tmp_path, tmp_path / "records")
    assert caught.value.exit_code == 1
    assert "nothing says that stage gives 1.0 as it was published" in str(caught.value)
    assert "name the folder of its record with --records" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"proved": False}, "nobody saw that stage gives 1.0"),
        ({"complete": False}, "not everything of 1.0 was published on stage"),
        ({"files": [{"name": NAME, "sha256": "b" * 64}]}, "with other files than release.json names"),
    ],
)
def test_a_release_json_is_no_way_round_what_was_not_proved(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    write_json(tmp_path / "published-stage.json", "package-published", {**PROVED, **change})
    with pytest.raises((NotProvedError, BadFileError)) as caught:
        released(tmp_path, tmp_path / "records")
    assert said in str(caught.value)


DAMAGED: list[dict[str, Any]] = [
    {"files": 5}, {"files": None}, {"files": [5]}, {"state": 5}, {"installed": 5}, {"proved": "yes"},
]  # fmt: skip


@pytest.mark.parametrize("change", DAMAGED)
def test_a_damaged_note_is_said(tmp_path: Path, change: dict[str, Any]) -> None:
    write_json(tmp_path / "published-stage.json", "package-published", {**PROVED, **change})
    with pytest.raises(BadFileError, match=f"of the wrong kind: {next(iter(change))}") as caught:
        from_note(tmp_path, "stage")
    assert "delete it and publish again, which looks and uploads nothing twice" in str(caught.value)


RELEASE = {**GOOD, "source": {"commit": "c" * 40, "dirty": []}}


def verified(*dirty: str, digest: str = "a" * 64) -> Record:
    files = [{"name": NAME, "sha256": digest}]
    return Record(
        step="verify",
        project="spyre-demo",
        commit="c" * 40,
        dirty=dirty,
        passed=True,
        details={"files": files},
    )


def test_what_was_built_of_a_changed_checkout_is_not_promoted(tmp_path: Path) -> None:
    refuse_changed(known_of(RELEASE, tmp_path), None)
    refuse_changed(known_of(RELEASE, tmp_path), verified())
    refuse_changed(known_of(RELEASE, tmp_path), verified("a.py", digest="b" * 64))
    told = known_of({**RELEASE, "source": {"commit": "c", "dirty": ["a", "b\n", "c", "d"]}}, tmp_path)
    for known, record in ((told, None), (known_of(RELEASE, tmp_path), verified("a", "b\n", "c", "d"))):
        with pytest.raises(NotCommittedError) as caught:
            refuse_changed(known, record)
        assert caught.value.exit_code == 1
        assert "differed from its commit: a, b\\n, c and 1 more" in str(caught.value)
        assert "commit the changes; then build, verify and publish" in str(caught.value)
    with pytest.raises(BadFileError, match=r"source\.dirty is no list \(seen: 'x'\)"):
        known_of({**RELEASE, "source": {"commit": "c", "dirty": "x"}}, tmp_path)


def test_another_release_than_the_one_asked_for_is_refused() -> None:
    known = known_of(GOOD, Path("release.json"))
    refuse_other(known, "1.0.0", "spyre.demo")
    with pytest.raises(UsageError, match=r"spyre-demo 1\.0 is known, and spyre-demo 1\.1 was asked for"):
        refuse_other(known, "1.1", None)
    with pytest.raises(UsageError, match=r"other 1\.0 was asked for"):
        refuse_other(known, "1.0", "other")
    with pytest.raises(UsageError, match="'x' is no version"):
        refuse_other(known, "x", None)
