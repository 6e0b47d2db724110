from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from ci.core.errors import SettingsError
from ci.package.account import Account, Said, UnfinishedError, UploadRefusedError, refused
from ci.package.artifacts import Artifact


def artifact(name: str) -> Artifact:
    return Artifact(
        path=Path(name), kind="sdist", name="demo", version=Version("1.0"), sha256=name * 64, size=1
    )


def account(**states: str) -> Account:
    made = Account(artifacts=[artifact(name) for name in ("a", "b", "c")])
    made.states = dict(states)  # type: ignore[arg-type]  # as written in the tests
    return made


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
