"""What is said of a file whose upload nobody saw the end of."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from packaging.version import Version

from ci.config.package_model import Index
from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED
from ci.package import uploading
from ci.package.account import Account, Said, UnfinishedError
from ci.package.artifacts import Artifact
from ci.package.asking import Asker
from ci.package.credentials import Credentials
from ci.package.listing import Listed
from ci.package.uploading import ChangedError, Uploader, copied, read

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
    monkeypatch.setattr(uploading, "copied", lambda artifacts, *_: [one.path for one in artifacts])
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


def file(folder: Path, content: bytes = b"as verified") -> Artifact:
    path = folder / NAME
    path.write_bytes(content)
    return replace(SDIST, path=path, sha256=sha256(content).hexdigest())


def test_what_goes_out_is_a_copy_of_the_bytes_that_were_verified(tmp_path: Path) -> None:
    one = file(tmp_path)
    (tmp_path / "copies").mkdir()
    [path] = copied([one], tmp_path / "copies", "stage")
    one.path.write_bytes(b"other")
    assert (path.name, path.read_bytes()) == (NAME, b"as verified")


def test_a_file_that_changed_since_is_not_uploaded(tmp_path: Path) -> None:
    one = file(tmp_path)
    one.path.write_bytes(b"other")
    (tmp_path / "copies").mkdir()
    with pytest.raises(ChangedError, match=f"not {one.sha256}; nothing was uploaded to stage") as caught:
        copied([one], tmp_path / "copies", "stage")
    assert caught.value.exit_code == EXIT_TEST_FAILED
    assert "put back what was verified" in str(caught.value)


def test_a_file_that_cannot_be_copied_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match=r"cannot be copied for the upload: .*; nothing was") as caught:
        copied([replace(SDIST, path=tmp_path / NAME)], tmp_path, "stage")
    assert caught.value.exit_code == EXIT_INCOMPLETE
    assert "make room below TMPDIR" in str(caught.value)


def test_files_are_copied_before_any_is_uploaded_and_each_upload_is_noted_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = file(tmp_path)
    second = replace(first, path=tmp_path / "spyre_demo-1.0-1.tar.gz")
    second.path.write_bytes(b"as verified")
    page: list[Listed] = []
    notes: list[dict[str, list[str]]] = []
    sent: list[bytes] = []

    def by_twine(path: Path, *_: object, **__: object) -> Said:
        # What is written over while the first is on its way does not go out.
        second.path.write_bytes(b"evil")
        sent.append(path.read_bytes())
        page.append(Listed(filename=path.name, url="https://index/x", sha256=first.sha256))
        return Said(code=0)

    monkeypatch.setattr(uploading, "by_twine", by_twine)
    monkeypatch.setattr(Asker, "listed", lambda *_, **__: page)
    index = Index(upload="https://index/", simple="https://index/simple")
    account = Account(artifacts=[first, second])
    Uploader(
        asker=Asker(name="stage", index=index, sleep=lambda _: None), credentials=Credentials(user="x"),
        environ={}, timeout_s=1, say=lambda _: None, note=lambda: notes.append(account.as_json()["state"]),
    ).upload(account)  # fmt: skip
    assert sent == [b"as verified", b"as verified"]
    assert [(one["unsure"], one["uploaded"]) for one in notes] == [
        ([first.filename], []), ([second.filename], [first.filename]),
    ]  # fmt: skip


REFUSED = """Uploading distributions to http://127.0.0.1:1/
INFO     password set by command options
INFO     username: publisher
INFO     password: <hidden>
INFO     dist/x.whl (1.2 KB)
Uploading x.whl
INFO     Response from http://127.0.0.1:1/:
         400 Bad Request
INFO     <html><title>400</title>
         <p>Invalid value for <b>blake2</b></p></html>
WARNING  Error during upload. Retry with the --verbose option for more details.
ERROR    HTTPError: 400 Bad Request from http://127.0.0.1:1/
         Bad Request
"""


def test_the_status_and_what_the_index_said_are_read() -> None:
    said = read(1, REFUSED)
    assert (said.code, said.status, said.untrusted) == (1, 400, False)
    assert "  | Invalid value for blake2" in said.text
    assert "password" not in said.text
    assert "<" not in said.text


def test_a_status_that_was_not_said_is_none() -> None:
    assert read(1, "ERROR    ConnectionError: refused").status is None


def test_a_job_that_the_index_does_not_trust_is_known() -> None:
    assert read(1, "ERROR    TrustedPublishingFailure: The token request failed").untrusted
    assert read(1, "ERROR    NonInteractive: Credential not found for API token.").untrusted


def test_a_github_that_is_not_well_is_not_the_jobs_fault() -> None:
    begin = "ERROR    TrustedPublishingFailure: Unable to retrieve an OIDC token from the CI platform"
    assert not read(1, f"{begin} GitHub: OIDC token request timed out").untrusted
    assert not read(1, f"{begin} GitHub: OIDC token request failed (code=503, body='')").untrusted
    assert read(1, f"{begin} GitHub: OIDC token request failed (code=403, body='')").untrusted


def test_no_line_of_an_index_commands_a_terminal_or_a_ci() -> None:
    text = read(1, "\x1b[31m::error::x\x07\n::stop-commands::y").text
    assert text == "  | ::error::x\\x07\n  | ::stop-commands::y"


def test_only_the_last_lines_are_shown_and_none_is_endless() -> None:
    shown = read(1, "\n".join(f"{number} {'x' * 1000}" for number in range(100))).text.splitlines()
    assert len(shown) == 20
    assert max(map(len, shown)) < 310


def test_of_a_traceback_the_last_line_is_shown() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py"\nOSError: b\n\n'
    text = f"Uploading x\n{trace}requests.Error: refused\n"
    assert read(1, text).text == "  | requests.Error: refused"
