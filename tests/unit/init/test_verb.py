"""`spyre-ci init` in folders that are no repository: what is shown, written, refused, and said."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.init import proposal as proposals
from ci.init.decide import Merge, Merged
from ci.init.noted import FILE
from ci.init.rendered import JENKINSFILE, SETTINGS, WORKFLOWS
from tests.json_documents import differences

ROOT = Path(__file__).parents[3]
SHA = "1234567890abcdef1234567890abcdef12345678"
NEWER = "abcdef1234567890abcdef1234567890abcdef12"
PATHS = [SETTINGS, *(f".github/workflows/{name}" for name in WORKFLOWS), JENKINSFILE, FILE]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    toolkit(monkeypatch, "0.1.0", SHA)


def toolkit(monkeypatch: pytest.MonkeyPatch, version: str, commit: str) -> None:
    monkeypatch.setattr("ci.init.cli.installed", lambda: (version, commit))


def merging(monkeypatch: pytest.MonkeyPatch, merge: Merge) -> None:
    """Have another merge than Git's, which is a process."""
    monkeypatch.setattr("ci.init.cli.propose", functools.partial(proposals.propose, merge=merge))


def called(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(["init", *words]) == code, capsys.readouterr()
    said = capsys.readouterr()
    return said.out + said.err


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["init", "--json", *words]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert differences("init", found) == []
    assert found["exit_code"] == code
    return found


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {one["path"]: one["status"] for one in found["files"]}


def there() -> list[str]:
    return sorted(path.as_posix() for path in Path().rglob("*") if path.is_file())


def test_in_an_empty_folder_all_is_shown_and_nothing_written(capsys: pytest.CaptureFixture[str]) -> None:
    said = called(capsys)
    assert "+++ b/spyre-ci.yaml" in said
    assert "7 files to write: --write writes them" in said
    assert "no Git repository" in said
    assert "device spyre is assumed" in said
    assert there() == []
    assert called(capsys, "--check", code=1)


def test_what_people_said_holds_the_next_time(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "--write", "--device", "acme", "--toolkit", "fork/spyre-ci", "--toolkit-ref", "v9")
    found = told(capsys, "--check")
    assert (found["device"], found["toolkit"]["repository"], found["toolkit"]["ref"]) == (
        "acme", "fork/spyre-ci", "v9",
    )  # fmt: skip
    assert set(statuses(found).values()) == {"unchanged"}


def test_after_an_upgrade_what_is_new_comes_into_what_people_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(capsys, "--write", "--toolkit-ref", "v9")
    night = Path(".github/workflows/spyre-ci-nightly.yml")
    night.write_text(night.read_text().replace("name: spyre-ci nightly", "name: our night"))
    Path(".github/workflows/spyre-ci-label.yml").unlink()
    toolkit(monkeypatch, "0.2.0", NEWER)
    merging(monkeypatch, lambda _base, now, _new: Merged(text=now, conflicts=0))
    found = told(capsys, "--write")
    assert statuses(found) == {
        SETTINGS: "unchanged",
        **{f".github/workflows/{name}": "updated" for name in WORKFLOWS},
        ".github/workflows/spyre-ci-nightly.yml": "merged",
        ".github/workflows/spyre-ci-label.yml": "kept",
        JENKINSFILE: "updated",
        FILE: "updated",
    }
    # A ref that was said was said of the version before.
    assert found["toolkit"]["ref"] == NEWER
    assert f"@{NEWER} # v0.2.0" in night.read_text()
    assert "name: our night" in night.read_text()
    assert not Path(".github/workflows/spyre-ci-label.yml").exists()
    assert set(statuses(told(capsys)).values()) == {"unchanged", "kept"}
    again = told(capsys, "--write", "--again", ".github/workflows/spyre-ci-label.yml")
    assert statuses(again)[".github/workflows/spyre-ci-label.yml"] == "created"


def odd_link() -> None:
    Path(JENKINSFILE).symlink_to("/etc/hostname")


def odd_folder() -> None:
    Path(JENKINSFILE).mkdir()


def odd_parent() -> None:
    Path("../elsewhere").mkdir()
    Path(".github").symlink_to("../elsewhere")


def odd_file() -> None:
    Path(".github").write_text("")


def odd_bytes() -> None:
    Path(JENKINSFILE).write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    ("make", "path", "why"),
    [
        (odd_link, JENKINSFILE, "it is a link"),
        (odd_folder, JENKINSFILE, "it is a folder"),
        (odd_parent, ".github/workflows/spyre-ci.yml", ".github is a link"),
        (odd_file, ".github/workflows/spyre-ci.yml", ".github is no folder"),
        (odd_bytes, JENKINSFILE, "it is not UTF-8"),
    ],
)
def test_what_is_in_the_way_stays_and_is_told(
    capsys: pytest.CaptureFixture[str], make: Any, path: str, why: str
) -> None:
    make()
    said = called(capsys, "--write", code=1)
    assert f"conflict: {path}: {why}; move it aside, or leave it with --keep {path}" in said
    assert Path(SETTINGS).is_file()
    elsewhere = Path("../elsewhere")
    assert not elsewhere.exists() or not any(elsewhere.iterdir())
    kept = [word for one in PATHS if one.startswith(path.partition("/")[0]) for word in ("--keep", one)]
    assert told(capsys, "--write", *kept)
    assert not elsewhere.exists() or not any(elsewhere.iterdir())


def test_notes_that_are_a_link_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path(FILE).symlink_to("/etc/hostname")
    assert "is no file of notes: it is a link" in called(capsys, code=2)


def test_notes_of_a_failed_merge_are_refused_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    Path(FILE).write_text("<<<<<<< HEAD\n")
    assert "take it back from Git" in called(capsys, code=2)


def test_a_conflict_is_shown_and_what_somebody_keeps_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(capsys, "--write")
    text = Path(JENKINSFILE).read_text().replace("spyreSources(", "ourSources(")
    Path(JENKINSFILE).write_text(text)
    toolkit(monkeypatch, "0.2.0", NEWER)
    merging(monkeypatch, lambda *_: Merged(text="<<<<<<< this\n", conflicts=1))
    said = called(capsys, "--write", code=1)
    assert "+<<<<<<< this" in said
    assert f"`spyre-ci init --write --keep {JENKINSFILE}`" in said
    assert Path(JENKINSFILE).read_text() == text
    assert called(capsys, "--check", code=1)
    assert statuses(told(capsys, "--write", "--keep", JENKINSFILE))[JENKINSFILE] == "kept"
    assert "nothing to do" in called(capsys, "--check")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--write", "--check"], "--write and --check are both given"),
        (["--device", "A B"], "--device is 'A B'"),
        (["--package", "a-b"], "--package is 'a-b'"),
        (["--toolkit", "x"], "--toolkit is 'x'"),
        (["--toolkit-ref", "a b"], "--toolkit-ref is 'a b'"),
        (["--again", "../x"], "--again names '../x', which is no file of spyre-ci init"),
        (["--keep", "README.md"], "--keep names 'README.md', which is no file of spyre-ci init"),
        (["nowhere"], "there is no such folder"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_remedy(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    told_so = called(capsys, *words, code=2)
    assert said in told_so
    assert "remedy: " in told_so
    assert there() == []


def test_a_file_is_no_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    assert "is no folder" in called(capsys, "file", code=2)


def test_where_the_last_file_cannot_be_written_none_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(JENKINSFILE).write_text("node {}\n")
    replace = Path.replace

    def refuses(self: Path, target: Path) -> Path:
        if target.name == FILE:
            raise PermissionError(13, "Permission denied", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuses)
    assert "Permission denied" in called(capsys, "--write", code=2)
    assert there() == [JENKINSFILE]
    assert not Path(".github").exists()


def test_a_renewal_that_fails_puts_the_files_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(capsys, "--write")
    before = {name: Path(name).read_bytes() for name in there()}
    toolkit(monkeypatch, "0.2.0", NEWER)
    replace = Path.replace
    failed: list[Path] = []

    def refuses(self: Path, target: Path) -> Path:
        if target.name == FILE and not failed:
            failed.append(target)
            raise OSError(28, "No space left on device", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuses)
    assert "No space left" in called(capsys, "--write", code=3)
    assert {name: Path(name).read_bytes() for name in there()} == before


def test_a_file_that_changes_meanwhile_is_not_overwritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = proposals.carry_out

    def late(proposal: proposals.Proposal) -> None:
        Path(SETTINGS).write_text("stage: 2\n")
        carry_out(proposal)

    monkeypatch.setattr("ci.init.cli.carry_out", late)
    assert "changed while it was looked at" in called(capsys, "--write", code=2)
    assert there() == [SETTINGS]
    assert Path(SETTINGS).read_text() == "stage: 2\n"


def test_ends_of_lines_and_rights_stay_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(capsys, "--write")
    path = Path(JENKINSFILE)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    path.chmod(0o755)
    assert statuses(told(capsys))[JENKINSFILE] == "unchanged"
    toolkit(monkeypatch, "0.2.0", NEWER)
    assert statuses(told(capsys, "--write"))[JENKINSFILE] == "updated"
    assert path.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\n") > 0
    assert NEWER.encode() in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o755


def test_what_files_say_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text(
        '[project]\nname = "a"\n[project.entry-points."torch.backends"]\na = "b"\n'
    )
    name = "\x1b[31m::error::x.py"
    Path("b").mkdir()
    Path("b", name).write_text("rename_privateuse1_backend('acme')")
    said = called(capsys)
    assert "device acme: b/" in said
    assert "\x1b[31m::error" not in said


def test_a_named_pipe_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pyproject.toml")
    os.mkfifo("a.py")
    os.mkfifo(JENKINSFILE)
    assert statuses(told(capsys, "--write", code=1))[JENKINSFILE] == "conflict"
