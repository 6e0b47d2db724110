from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import requests

from ci.config.package_model import Index
from ci.core.errors import SettingsError
from ci.package.asking import Asker, IndexAwayError, fetch
from ci.package.listing import Listed, OtherBytesError

NAME = "spyre_demo-1.0.tar.gz"
JSON = b"""{"meta": {"api-version": "1.1"}, "name": "spyre-demo", "versions": ["1.0"], "files": [
  {"filename": "spyre_demo-1.0.tar.gz", "url": "../../files/x", "hashes": {"sha256": "AA"},
   "yanked": "broken"},
  {"filename": "spyre_demo-1.1.tar.gz", "url": "https://files/y", "hashes": {}}]}"""
HTML = b"""<!DOCTYPE html><html><body>
<a href="../../files/x#sha256=aa" data-yanked="">spyre_demo-1.0.tar.gz</a>
<a href="../../files/y#md5=bb">spyre_demo-1.1.tar.gz</a></body></html>"""

PORTAL = b"""<!DOCTYPE html><html><head><title>Welcome</title></head><body>
<a href="/login">Log in</a> to use this network</body></html>"""
DEEP = b"[" * 100_000


class Answer:
    """What requests gives, as far as it is looked at."""

    def __init__(self, status: int = 200, body: bytes = HTML, kind: str = "text/html") -> None:
        self.status_code, self.body, self.headers = status, body, {"content-type": kind}
        self.url = "https://index/simple/spyre-demo/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def iter_content(self, size: int) -> Iterator[bytes]:
        for start in range(0, len(self.body), size):
            yield self.body[start : start + size]


def asker(monkeypatch: pytest.MonkeyPatch, *answers: Answer | Exception, seconds: float = 0.0) -> Asker:
    """One that is given an answer after another, each of whose parts takes some seconds."""
    left, now = list(answers), [0.0]

    def get(_self: object, _url: str, **_: object) -> Answer:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def clock() -> float:
        now[0] += seconds
        return now[0]

    monkeypatch.setattr(requests.Session, "get", get)
    index = Index(upload="https://index/", simple="https://index/simple", max_mib=0.1)
    return Asker(name="stage", index=index, sleep=lambda _: None, clock=clock)


@pytest.mark.parametrize(
    ("body", "kind"), [(JSON, "application/vnd.pypi.simple.v1+json"), (HTML, "text/html")]
)
def test_a_page_says_files_hashes_and_what_is_yanked(
    monkeypatch: pytest.MonkeyPatch, body: bytes, kind: str
) -> None:
    first, second = asker(monkeypatch, Answer(body=body, kind=kind)).listed("spyre-demo")
    assert (first.filename, first.url, first.sha256) == (NAME, "https://index/files/x", "aa")
    assert first.yanked is not None
    assert (second.sha256, second.yanked) == ("", None)


def test_a_page_may_spell_the_project_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(body=JSON.replace(b'"spyre-demo"', b'"Spyre_Demo"'), kind="application/json")
    assert len(asker(monkeypatch, answer).listed("spyre-demo")) == 2


def test_a_project_that_the_index_does_not_know_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asker(monkeypatch, Answer(404)).listed("spyre-demo") == []


@pytest.mark.parametrize(
    "body",
    [
        b'<html><head><meta name="pypi:repository-version" content="1.3"></head><body>none</body></html>',
        b"<html><head><title>root/dev: links for x</title></head><body><h1>Links for x</h1></body></html>",
        b"<html><head><meta charset=utf-8><style>a {}</style></head><body> <!-- none --></body></html>",
    ],
)
def test_a_page_of_an_index_without_files_has_none(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    assert asker(monkeypatch, Answer(body=body)).listed("spyre-demo") == []


def test_a_fault_that_passes_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    one = asker(monkeypatch, Answer(503), requests.ConnectionError("reset"), Answer())
    assert len(one.listed("spyre-demo")) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(500), "it answered 500"),
        (Answer(body=b"welcome"), "what it says of spyre-demo is no page of a simple API: it is not HTML"),
        (Answer(body=PORTAL), "it names no file, and does not say that it is a page of an index"),
        (Answer(body=b"<html><body>Service unavailable</body></html>"), "it names no file"),
        (Answer(body=b"<html><head><title>Welcome</title></head><body></body></html>"), "it names no file"),
        (Answer(body=b"<html><body><script>location = '/login'</script></body></html>"), "it names no file"),
        (Answer(body=b"<html><body><script src='/login.js'></script></body></html>"), "it names no file"),
        (Answer(body=JSON.replace(b"spyre-demo", b"other"), kind="application/json"), "it is of 'other'"),
        (Answer(body=b"<html>" + b"<!-- " * (1 << 11)), "it names no file"),
        (Answer(body=DEEP, kind="application/json"), "is no page of a simple API"),
        (Answer(body=b"[]", kind="application/json"), "is no page of a simple API"),
        (Answer(body=b"{", kind="application/json"), "is no page of a simple API"),
        (requests.ReadTimeout("x"), "it did not answer within 30 s"),
        (requests.ConnectionError("Connection refused"), "it cannot be reached: Connection refused"),
        (
            requests.ConnectionError("https://me:pw@index/ reset"),
            "it cannot be reached: https://index/ reset",
        ),
    ],
)
def test_a_fault_that_stays_is_told_with_the_index(
    monkeypatch: pytest.MonkeyPatch, answer: Answer | Exception, said: str
) -> None:
    with pytest.raises(IndexAwayError) as caught:
        asker(monkeypatch, answer, answer, answer).listed("spyre-demo")
    assert caught.value.exit_code == 3
    assert said in str(caught.value)
    assert "stage (https://index/simple)" in str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_an_index_that_wants_a_login_is_told_at_once(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with pytest.raises(SettingsError, match="shows nothing without a login"):
        asker(monkeypatch, Answer(status)).listed("spyre-demo")


def test_an_answer_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Answer(body=b"x" * (1 << 20))
    with pytest.raises(IndexAwayError, match="its answer did not end within 30 s"):
        asker(monkeypatch, slow, slow, slow, seconds=20).listed("spyre-demo")


def listed() -> Listed:
    return Listed(filename=NAME, url="https://index/files/x?key=secret")


def test_a_file_that_is_too_large_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IndexAwayError, match="it sends more than"):
        asker(monkeypatch, Answer(body=b"x" * (1 << 20))).digest(listed())


def test_a_file_that_it_shows_and_does_not_give_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IndexAwayError, match=f"{NAME} cannot be downloaded: it answered 404"):
        asker(monkeypatch, Answer(404)).digest(listed())


def test_a_download_with_other_bytes_is_told_with_both_hashes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(OtherBytesError) as caught:
        fetch(asker(monkeypatch, Answer(body=b"other")), listed(), sha256="a" * 64, folder=tmp_path)
    assert f"{NAME} came from stage with other bytes: sha256 d9298a10" in str(caught.value)
    assert f"not {'a' * 64}" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.exit_code == 1
