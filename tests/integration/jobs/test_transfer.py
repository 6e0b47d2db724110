"""`spyre-ci job fetch` and `put` against a real S3 endpoint, and one that fails."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from ci.core import object_store
from ci.core.errors import (
    BadFileError,
    BucketAwayError,
    CommandError,
    MissingInputError,
    NotWholeError,
    SettingsError,
    SpyreCiError,
)
from ci.jobs import transfer
from ci.jobs.cli_pod import fetch_verb, put_verb
from ci.jobs.transfer import MANIFEST, OWN, Content, Manifest
from tests.cutting_proxy import CuttingProxy

app = typer.Typer()
app.command("fetch")(fetch_verb)
app.command("put")(put_verb)


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def done(*arguments: str | Path) -> str:
    """What a transfer says that comes to its end."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(kind: type[SpyreCiError], *arguments: str | Path) -> SpyreCiError:
    error = call(*arguments).exception
    assert isinstance(error, kind), error
    return error


def fill(store: Any, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        store.put_object(Bucket="box", Key=name, Body=content)


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and OWN not in path.parts
    }


def keys(store: Any) -> dict[str, str]:
    return {row["Key"]: row["ETag"] for row in store.list_objects_v2(Bucket="box").get("Contents", ())}


def test_a_folder_comes_with_all_below_it_and_nothing_of_its_neighbours(tmp_path: Path, store: Any) -> None:
    model = {"config.json": b"{}", "deep/er/weights.bin": b"w" * 1000, "empty": b""}
    fill(store, {f"model/{name}": content for name, content in model.items()})
    fill(store, {"model-2/config.json": b"other", "model/": b"", "model": b"an object of the same name"})
    assert done("fetch", "s3://box/model", tmp_path / "inputs") == "fetched 3 files (1 KiB)\n"
    assert content_of(tmp_path / "inputs") == model
    assert json.loads((tmp_path / "inputs" / OWN / MANIFEST).read_text())["whole"] is True


@pytest.mark.parametrize("below", ["runs/7", "runs/7/"])
@pytest.mark.parametrize("prefix", ["", "top"])
def test_what_is_below_a_name_is_listed_with_a_slash_at_its_end_or_without(
    store: Any, prefix: str, below: str
) -> None:
    start = f"{prefix}/" if prefix else ""
    fill(store, {f"{start}runs/7/a": b"1", f"{start}runs/70/b": b"2", f"{start}runs/7": b"3"})
    bucket = object_store.Bucket(f"s3://box/{prefix}", where="--from")
    assert list(bucket.names(below)) == [("runs/7/a", 1)]


def test_what_is_there_is_not_fetched_again_and_what_changed_is(tmp_path: Path, store: Any) -> None:
    fill(store, {"m/a": b"one", "m/b": b"two", "m/gone": b"x", "m/was-file": b"f"})
    done("fetch", "s3://box/m", tmp_path)
    kept = (tmp_path / "a").stat().st_ino
    fill(store, {"m/b": b"TWO", "m/new": b"new", "m/was-folder/x": b""})
    store.delete_object(Bucket="box", Key="m/gone")
    (tmp_path / "was-file").unlink()
    assert (
        done("fetch", "s3://box/m", tmp_path)
        == "fetched 4 of 5 files (0 KiB); the others were already there\n"
    )
    assert content_of(tmp_path) == {
        "a": b"one",
        "b": b"TWO",
        "new": b"new",
        "was-file": b"f",
        "was-folder/x": b"",
    }
    assert (tmp_path / "a").stat().st_ino == kept


def put_locally(folder: Path, files: dict[str, str]) -> None:
    """Write files; a text that begins with an arrow is a link, an empty one a pipe."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        elif text:
            path.write_text(text)
        else:
            os.mkfifo(path)


def test_a_folder_that_became_a_file_and_a_file_that_became_a_folder_are_fetched_anew(
    tmp_path: Path, store: Any
) -> None:
    fill(store, {"m/a/b": b"one", "m/c": b"two"})
    done("fetch", "s3://box/m", tmp_path)
    for name in ("m/a/b", "m/c"):
        store.delete_object(Bucket="box", Key=name)
    fill(store, {"m/a": b"ONE", "m/c/d": b"TWO"})
    done("fetch", "s3://box/m", tmp_path)
    assert content_of(tmp_path) == {"a": b"ONE", "c/d": b"TWO"}


def test_what_somebody_else_left_is_not_taken_for_what_was_fetched(tmp_path: Path, store: Any) -> None:
    fill(store, {"m/a": b"one"})
    (tmp_path / "a").write_bytes(b"ONE")
    done("fetch", "s3://box/m", tmp_path)
    assert content_of(tmp_path) == {"a": b"one"}


TELLS_OF_B = Manifest(whole=True, files={"b": Content(size=1, etag="")}).as_bytes().decode()
FETCH, PUT = ("fetch", "s3://box/m", "in"), ("put", "in", "s3://box/m")
IN_THE_WAY, NO_FILE = (
    "cannot be fetched: a file that was not fetched is in the way",
    "{!r} is not a file of this folder",
)
LINKED, NAME = "is reached by a link that leads out of the folder", "the name {!r}"
NO_MANIFEST, AT_MANIFEST = "is not a manifest of at most 256 MiB: ", f"s3://box/m/{MANIFEST}"
# Verb, objects below m, local files, the error, what it begins with, and where it is.
REFUSED: list[tuple[tuple[str, ...], dict[str, str], dict[str, str], type[SpyreCiError], str, str]] = [
    (FETCH, {"a": "1"}, {"in/a/mine": "x"}, BadFileError, IN_THE_WAY, "in/a"),
    (FETCH, {"a/b": "1"}, {"in/a": "x"}, BadFileError, IN_THE_WAY, "in/a/b"),
    (FETCH, {"sub/f": "1"}, {"in/sub": "->../out", "out/f": "x"}, BadFileError, LINKED, "in/sub/f"),
    (FETCH, {}, {}, BadFileError, "contains no object", "s3://box/m"),
    (FETCH, {MANIFEST: TELLS_OF_B, "b": "22"}, {}, NotWholeError, "1 of 1 files differ from the", "s3://box/m"),
    (FETCH, {MANIFEST: TELLS_OF_B}, {}, NotWholeError, "1 of 1 files differ from the", "s3://box/m"),
    (FETCH, {MANIFEST: "no JSON", "a": "1"}, {}, BadFileError, NO_MANIFEST, AT_MANIFEST),
    *(
        (FETCH, {"a": "1", name: "2"}, {}, BadFileError, NAME.format(name), "s3://box/m")
        for name in ("../x", "a//b", "/absolute", "a\x1bb", "x/../../../y")
    ),
    *(
        (PUT, {}, {f"in/{name}": to, "secret": "s"}, BadFileError, NO_FILE.format(name), "in")
        for name, to in {"dots": "->../secret", "gone": "->x", "round": "->.", "pipe": ""}.items()
    ),
    (PUT, {}, {}, MissingInputError, "there is no such folder", "in"),
    (PUT, {}, {f"in/{OWN}/parts/x": "x"}, BadFileError, "contains no file", "in"),
    (PUT, {}, {"in/a\nb": "x"}, BadFileError, NAME.format("a\nb"), "in"),
    (("fetch", "s3://no-box/m", "in"), {}, {}, CommandError, "the bucket refuses", "s3://no-box/m"),
    (("put", "in", "s3://no-box/m"), {}, {"in/a": "x"}, CommandError, "the bucket refuses", "s3://no-box/m"),
    *(
        (("fetch", word, "in"), {}, {}, SettingsError, f"{word!r} names no bucket", "SOURCE")
        for word in ("http://b/m", "s3://", "folder")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "objects", "files", "kind", "what", "where"), REFUSED)
def test_what_cannot_be_moved_is_told_of_and_nothing_is(
    tmp_path: Path,
    store: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: tuple[str, ...],
    objects: dict[str, str],
    files: dict[str, str],
    kind: type[SpyreCiError],
    what: str,
    where: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(store, {f"m/{name}": text.encode() for name, text in objects.items()})
    put_locally(tmp_path, files)
    before = sorted(tmp_path.rglob("*")), keys(store)
    error = refused(kind, *words)
    assert (error.exit_code, str(error.where)) == (kind.exit_code, where)
    assert error.what.startswith(what)
    left = [path for path in tmp_path.rglob("*") if OWN not in path.parts or path in before[0]]
    assert (sorted(left), keys(store)) == before


def test_a_folder_that_was_fetched_from_elsewhere_is_refused(tmp_path: Path, store: Any) -> None:
    fill(store, {"m/a": b"one", "n/a": b"two"})
    done("fetch", "s3://box/m", tmp_path)
    error = refused(BadFileError, "fetch", "s3://box/n", tmp_path)
    assert error.what == "contains files fetched from s3://box/m"
    assert content_of(tmp_path) == {"a": b"one"}


@pytest.mark.usefixtures("store")
def test_access_that_is_denied_is_no_matter_of_trying_again(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    with CuttingProxy(endpoint) as proxy:
        proxy.refuse = (403, denied)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        error = refused(CommandError, "fetch", "s3://box/m", tmp_path / "in")
    assert error.exit_code == 2
    assert "AccessDenied" in error.what


@pytest.mark.usefixtures("store")
def test_a_bucket_that_is_away_or_busy_is_a_matter_of_trying_again(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    (tmp_path / "f").write_text("x")
    for verb in (("fetch", "s3://box/m", tmp_path / "in"), ("put", tmp_path, "s3://box/m")):
        error = refused(BucketAwayError, *verb)
        assert error.exit_code == 3
    with CuttingProxy(endpoint) as proxy:
        proxy.refuse = (503, b"<Error><Code>SlowDown</Code></Error>")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        refused(BucketAwayError, "fetch", "s3://box/m", tmp_path / "in")


def test_a_fetch_that_was_cut_is_told_as_not_whole_and_goes_on_where_it_was(
    tmp_path: Path, store: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, {"m/a": b"a" * 10, "m/z-large": os.urandom(3_000_000)})
    folder = tmp_path / "in"
    monkeypatch.setattr(transfer, "AT_ONCE", 1)
    with CuttingProxy(endpoint) as proxy:
        proxy.cut_after = 1_000_000
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        error = refused(BucketAwayError, "fetch", "s3://box/m", folder)
    assert error.where == "s3://box/m/z-large"
    # Neither a part of the file nor its temporary file is left, and the folder says so.
    assert content_of(folder) == {"a": b"a" * 10}
    assert [path.name for path in (folder / OWN).iterdir()] == [MANIFEST]
    error = refused(NotWholeError, "put", folder, "s3://box/n")
    assert (error.what, error.exit_code) == ("was not fetched completely", 3)
    # What a process that was killed left behind is in nobody's way.
    (folder / OWN / "parts").mkdir()
    (folder / OWN / "parts" / "left").write_text("x")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    assert (
        done("fetch", "s3://box/m", folder)
        == "fetched 1 of 2 files (2.9 MiB); the others were already there\n"
    )
    assert not (folder / OWN / "parts").exists()


def test_an_object_that_changes_meanwhile_is_not_taken(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, {"m/a": b"one"})
    real = object_store.Bucket.download

    def late(self: Any, name: str, path: Path, **more: Any) -> None:
        fill(store, {"m/a": b"longer"})
        real(self, name, path, **more)

    monkeypatch.setattr(object_store.Bucket, "download", late)
    error = refused(NotWholeError, "fetch", "s3://box/m", tmp_path / "in")
    assert error.what == "differs from the bucket's listing: it was changed meanwhile, or is damaged"
    assert content_of(tmp_path / "in") == {}


def test_a_folder_goes_and_comes_back_the_same(tmp_path: Path, store: Any) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    large = os.urandom(2 * object_store.PART_BYTES + 5)
    (folder / "deep" / "large.bin").write_bytes(large)
    (folder / "just-a-part").write_bytes(large[: object_store.PART_BYTES])
    (folder / "empty").write_bytes(b"")
    (folder / "blob").write_bytes(b"content")
    (folder / "linked").symlink_to("blob")
    assert done("put", folder, "s3://box/to/here") == "put 5 files (48.0 MiB)\n"
    manifest = json.loads(store.get_object(Bucket="box", Key=f"to/here/{MANIFEST}")["Body"].read())
    assert manifest["schema"] == "spyre-ci/manifest/1"
    assert manifest["whole"] is True
    told = manifest["files"]["deep/large.bin"]
    assert (told["size"], told["sha256"]) == (len(large), hashlib.sha256(large).hexdigest())
    done("fetch", "s3://box/to/here", tmp_path / "back")
    assert content_of(tmp_path / "back") == content_of(folder)
    # What was fetched may be put: what the fetch keeps for itself does not go with it.
    before = keys(store)
    again = done("put", tmp_path / "back", "s3://box/to/here")
    assert again == "put 0 of 5 files (48.0 MiB); the others were already there\n"
    assert keys(store) == before


def test_only_what_changed_is_put_again_and_others_objects_stay(tmp_path: Path, store: Any) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    fill(store, {"m/other": b"of somebody"})
    done("put", tmp_path, "s3://box/m")
    (tmp_path / "b").write_text("TWO")
    assert done("put", tmp_path, "s3://box/m") == "put 1 of 2 files (0 KiB); the others were already there\n"
    assert set(keys(store)) == {"m/a", "m/b", "m/other", f"m/{MANIFEST}"}
    done("fetch", "s3://box/m", tmp_path / "back")
    assert content_of(tmp_path / "back") == {"a": b"one", "b": b"TWO"}


@pytest.mark.usefixtures("store")
def test_a_put_that_broke_off_is_no_folder_to_fetch_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / "in" / name).write_text(name)
    real = object_store.Bucket.put

    def breaks(self: Any, name: str, *more: Any, **named: Any) -> str:
        if name == "c":
            raise BucketAwayError("away")
        return real(self, name, *more, **named)

    monkeypatch.setattr(object_store.Bucket, "put", breaks)
    refused(BucketAwayError, "put", tmp_path / "in", "s3://box/m")
    error = refused(NotWholeError, "fetch", "s3://box/m", tmp_path / "back")
    assert error.what == "a put to this folder is running or was interrupted"
    monkeypatch.setattr(object_store.Bucket, "put", real)
    assert done("put", tmp_path / "in", "s3://box/m").startswith("put 1 of 3 files")
    done("fetch", "s3://box/m", tmp_path / "back")


def test_an_object_that_was_damaged_after_its_put_is_not_taken(tmp_path: Path, store: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("one")
    done("put", tmp_path / "in", "s3://box/m")
    fill(store, {"m/a": b"ONE"})
    error = refused(NotWholeError, "fetch", "s3://box/m", tmp_path / "back")
    assert error.where == "s3://box/m/a"
    # A put mends it.
    assert done("put", tmp_path / "in", "s3://box/m").startswith("put 1 file ")
    done("fetch", "s3://box/m", tmp_path / "back")


def test_a_manifest_that_is_far_too_large_is_not_read(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, {"m/a": b"one", f"m/{MANIFEST}": Manifest(whole=True).as_bytes()})
    monkeypatch.setattr(transfer, "LARGEST_MANIFEST", 3)
    error = refused(BadFileError, "fetch", "s3://box/m", tmp_path / "in")
    assert error.what.startswith("is not a manifest of at most 0 MiB")
