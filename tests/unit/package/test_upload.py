"""What becomes of a file that twine uploads, by what twine and the index say of it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest
from packaging.version import Version

from ci.config.package_model import Index
from ci.core.errors import SettingsError
from ci.package import publish
from ci.package.artifacts import Artifact
from ci.package.credentials import Credentials
from ci.package.gate import Release
from ci.package.index_client import IndexAwayError, IndexClient, IndexFile, TakenError
from ci.package.upload import Answer, UnfinishedError, UploadRefusedError, read

NAME = "spyre_demo-1.0.tar.gz"
DATA = b"as verified"
THERE = [IndexFile(filename=NAME, url="https://index/x", sha256=sha256(DATA).hexdigest())]
OTHER = [IndexFile(filename=NAME, url="https://index/x", sha256="b" * 64)]
AWAY = IndexAwayError("it cannot be reached", where="stage")


def sdist(folder: Path) -> Artifact:
    path = folder / NAME
    path.write_bytes(DATA)
    digest = sha256(DATA).hexdigest()
    return Artifact(
        path=path, kind="sdist", name="spyre-demo", version=Version("1.0"), sha256=digest, size=len(DATA)
    )


@pytest.mark.parametrize(
    ("case", "state", "error"),
    [
        ((Answer(code=0), THERE), "uploaded", None),
        ((Answer(code=0), []), "uploaded", None),  # a page is a copy that comes later
        ((Answer(code=1, status=500), THERE), "uploaded", None),
        ((Answer(code=1, status=500), []), "unsure", UnfinishedError),
        ((Answer(code=None), []), "unsure", UnfinishedError),
        ((Answer(code=1, status=400), THERE), "uploaded", None),
        ((Answer(code=1, status=400), []), "absent", UploadRefusedError),
        ((Answer(code=1, status=429), []), "absent", UnfinishedError),
        ((Answer(code=1, status=403), []), "absent", SettingsError),
        ((Answer(code=1, status=400), OTHER), "absent", TakenError),
        # What was uploaded is compared when all is.
        ((Answer(code=0), AWAY), "uploaded", None),
        ((Answer(code=1, status=502), AWAY), "unsure", UnfinishedError),
        ((KeyboardInterrupt(), []), "unsure", KeyboardInterrupt),
    ],
)
def test_what_became_of_a_file_is_the_indexs_word(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[Answer | KeyboardInterrupt, list[IndexFile] | IndexAwayError],
    state: str,
    error: type[BaseException] | None,
) -> None:
    answer, page = case

    def say(thing: object) -> object:
        if isinstance(thing, BaseException):
            raise thing
        return thing

    monkeypatch.setattr(publish, "upload_file", lambda *_, **__: say(answer))
    monkeypatch.setattr(IndexClient, "files", lambda *_: say(page))
    told: list[str] = []
    made = publisher(tmp_path, told)
    with nullcontext() if error is None else pytest.raises(error):
        made.upload(made.release.artifacts, Credentials(user="x", token="y"))
    assert made.states.get(NAME, "absent") == state
    noted = json.loads((tmp_path / "published-stage.json").read_text())
    assert [one["state"] for one in noted["files"]] == [state]
    assert (f"interrupted: {made.line()}; repeat the command to continue" in told) == (
        error is KeyboardInterrupt
    )


def publisher(folder: Path, told: list[str]) -> publish.Publisher:
    index = Index(upload="https://index/", simple="https://index/simple")
    return publish.Publisher(
        client=IndexClient(name="stage", index=index),
        release=Release(project="spyre-demo", commit="", dirty=(), artifacts=[sdist(folder)]),
        records=folder, environ={}, constraints=(), timeout_s=1, say=told.append,
    )  # fmt: skip


def test_only_bytes_that_were_looked_at_go_out(tmp_path: Path) -> None:
    made = publisher(tmp_path, [])
    (tmp_path / NAME).write_bytes(b"changed")
    with pytest.raises(UploadRefusedError, match="it was not uploaded"):
        made.upload(made.release.artifacts, Credentials(user="x", token="y"))
    assert made.line() == "nothing was published"


TWINE = """\
INFO     Using configuration from ~/.pypirc
Uploading distributions to http://127.0.0.1:1/
INFO     spyre_demo-1.0.tar.gz (1.0 KB)
ERROR    HTTPError: 400 Bad Request from http://127.0.0.1:1/
         <h1>no</h1> ::error::x
"""


def test_of_what_twine_says_what_failed_is_shown_and_commands_no_ci() -> None:
    assert read(1, TWINE) == Answer(
        code=1, status=400,
        text="\n  | ERROR HTTPError: 400 Bad Request from http://127.0.0.1:1/\n  | no ::error::x",
    )  # fmt: skip
    trace = "Traceback (most recent call last):\n  File x\nConnectionError: refused\n"
    assert read(1, trace) == Answer(code=1, text="\n  | ConnectionError: refused")


@pytest.mark.parametrize(
    ("states", "line"),
    [
        ({}, "nothing was published"),
        ({NAME: "unsure"}, f"0 of 1 files are published; unknown whether published: {NAME}"),
        ({NAME: "there"}, f"1 of 1 files is published: {NAME}"),
    ],
)
def test_what_is_published_is_said_in_a_line(
    tmp_path: Path, states: dict[str, publish.State], line: str
) -> None:
    made = publisher(tmp_path, [])
    made.states.update(states)
    assert made.line() == line


def test_errors_end_with_codes_that_say_whether_to_come_back() -> None:
    assert (UnfinishedError.exit_code, UploadRefusedError.exit_code) == (3, 1)
