from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from ci.core.errors import SettingsError
from ci.package.account import Account, Said, UnfinishedError, UploadRefusedError, note, refused
from ci.package.artifacts import Artifact


def artifact(name: str) -> Artifact:
    return Artifact(
        path=Path(name), kind="sdist", name="demo", version=Version("1.0"), sha256=name * 64, size=1
    )


def account(**states: str) -> Account:
    made = Account(artifacts=[artifact(name) for name in ("a", "b", "c")])
    made.states = dict(states)  # type: ignore[arg-type]  # as written in the tests
    return made


def test_nothing_published_is_said_so() -> None:
    assert account().line == "nothing was published"


def test_what_is_published_and_what_is_not_is_said_by_name() -> None:
    assert account(a="there").line == "1 of 3 files is published: a; not published: b, c"
    assert account(a="there", b="uploaded").line == "2 of 3 files are published: a, b; not published: c"
    assert account(a="there", b="uploaded", c="uploaded").line == "3 of 3 files are published: a, b, c"


def test_what_nobody_knows_of_is_neither() -> None:
    half = account(a="uploaded")
    half.unsure.add("b")
    assert half.line == "1 of 3 files is published: a; not published: c; it is not known whether b is"
    none = account()
    none.unsure.add("a")
    assert none.line == "0 of 3 files are published; not published: b, c; it is not known whether a is"


def test_the_note_says_what_became_of_each_file() -> None:
    told = note(account(a="there", b="uploaded"), about={"index": "stage"}, installed=[], when="now")
    assert told["state"] == {"uploaded": ["b"], "there": ["a"], "absent": ["c"], "unsure": []}
    assert told["complete"] is False
    assert told["files"][1] == {"name": "b", "sha256": "b" * 64, "size": 1, "state": "uploaded"}
    assert (told["index"], told["when"]) == ("stage", "now")


def test_the_note_says_what_nobody_knows() -> None:
    half = account(a="uploaded")
    half.unsure.add("b")
    told = note(half, about={}, installed=[], when="now")
    assert told["state"] == {"uploaded": ["a"], "there": [], "absent": ["c"], "unsure": ["b"]}
    assert [one["state"] for one in told["files"]] == ["uploaded", "unsure", "absent"]


def test_a_release_is_complete_once_it_was_shown_to_be() -> None:
    whole = account(a="there", b="uploaded", c="uploaded")
    told = note(whole, about={}, installed=[], when="now")
    assert (told["complete"], told["proved"]) == (False, False)
    whole.proved = True
    told = note(whole, about={}, installed=["a"], when="now")
    assert (told["complete"], told["proved"]) == (True, True)


def error(**said: object) -> Exception:
    made = Said(**{"code": 1, **said})  # type: ignore[arg-type]  # as written in the tests
    return refused(made, artifact("a"), account(), index="stage", upload="https://index/")


@pytest.mark.parametrize("said", [{"status": 401}, {"status": 403}, {"untrusted": True}])
def test_who_may_not_upload_is_a_matter_of_credentials(said: dict[str, object]) -> None:
    caught = error(**said)
    assert isinstance(caught, SettingsError)
    assert "a was not taken" in str(caught)
    assert "nothing was published" in str(caught)
    assert "check the token, its user" in str(caught)
    assert "that it is a trusted publisher there" in str(caught)


def test_what_the_index_does_not_take_is_told_in_its_words() -> None:
    caught = error(status=400, text="  | 400 Invalid value for blake2_256_digest")
    assert isinstance(caught, UploadRefusedError)
    assert "a was not taken (400); nothing was published\n  | 400 Invalid value" in str(caught)
    assert "mend what the index says" in str(caught)


def test_a_name_that_was_used_and_deleted_wants_another_version() -> None:
    caught = error(status=400, text="This filename has already been used, use a different version.")
    assert "the name was used before and was deleted: raise the version" in str(caught)


@pytest.mark.parametrize("status", [None, 408, 429, 500, 503, 504])
def test_what_may_be_taken_later_is_unfinished(status: int | None) -> None:
    caught = error(status=status)
    assert isinstance(caught, UnfinishedError)
    assert caught.exit_code == 3
    assert "the same command continues when the index is well" in str(caught)
