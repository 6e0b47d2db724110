"""What is said of a file whose upload nobody saw the end of."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from ci.config.package_model import Index
from ci.package import uploading
from ci.package.account import Account, Said, UnfinishedError
from ci.package.artifacts import Artifact
from ci.package.asking import Asker
from ci.package.credentials import Credentials
from ci.package.listing import Listed
from ci.package.uploading import Uploader

NAME = "spyre_demo-1.0.tar.gz"
SDIST = Artifact(
    path=Path(NAME), kind="sdist", name="spyre-demo", version=Version("1.0"), sha256="a" * 64, size=1
)


def uploaded(monkeypatch: pytest.MonkeyPatch, said: Said | BaseException, page: list[Listed]) -> Account:
    """The account after an upload of which twine says something and the index shows something."""

    def by_twine(*_: object, **__: object) -> Said:
        if isinstance(said, BaseException):
            raise said
        return said

    monkeypatch.setattr(uploading, "by_twine", by_twine)
    monkeypatch.setattr(Asker, "listed", lambda *_, **__: page)
    index = Index(upload="https://index/", simple="https://index/simple")
    asker = Asker(name="stage", index=index, sleep=lambda _: None)
    uploader = Uploader(
        asker=asker, credentials=Credentials(user="x"), environ={}, timeout_s=1, say=lambda _: None
    )
    account = Account(artifacts=[SDIST])
    with pytest.raises((UnfinishedError, KeyboardInterrupt)):
        uploader.upload(account)
    return account


@pytest.mark.parametrize("said", [KeyboardInterrupt(), Said(code=None), Said(code=1, status=502)])
def test_a_page_that_does_not_show_a_file_yet_says_nothing(
    monkeypatch: pytest.MonkeyPatch, said: Said | BaseException
) -> None:
    account = uploaded(monkeypatch, said, [])
    assert account.line == f"0 of 1 files are published; it is not known whether {NAME} is"
    assert account.as_json()["state"]["unsure"] == [NAME]


def test_a_page_that_shows_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    page = [Listed(filename=NAME, url="https://index/x", sha256="a" * 64)]
    assert uploaded(monkeypatch, KeyboardInterrupt(), page).names("uploaded") == [NAME]


def test_what_the_index_did_not_take_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    account = uploaded(monkeypatch, Said(code=1, status=429), [])
    assert account.as_json()["state"]["absent"] == [NAME]
