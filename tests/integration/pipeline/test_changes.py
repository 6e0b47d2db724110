"""What a change touches, asked of real repositories as CIs check them out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.pipeline.diff import touched
from ci.pipeline.event import Event
from tests.repositories import Repository

from .conftest import Call

SETTINGS = "stage: 1\npackage: {tests: {emulated: true}}\n"
DOCS_ONLY = {"lint": True, "unit": False, "emulated": False, "package": False, "device": False}


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "origin")
    made.commit({"a.py": "1\n", "old.py": "x = 1\n" * 30, "README.md": "# it\n", "spyre-ci.yaml": SETTINGS})
    return made


def request(head: str, base: str, *labels: str) -> dict[str, Any]:
    return {
        "pull_request": {
            "head": {"sha": head, "repo": {"id": 1}},
            "base": {"sha": base, "repo": {"id": 1}},
            "labels": [{"name": one} for one in labels],
        }
    }


def branch(origin: Repository, changes: Mapping[str, str | None]) -> tuple[str, str]:
    """A change on a branch of its own, and the merge of it into a main that went on meanwhile."""
    start = origin.git("rev-parse", "main")
    origin.git("checkout", "--quiet", "-b", "change", start)
    head = origin.commit(changes)
    origin.git("checkout", "--quiet", "main")
    base = origin.commit({"meanwhile.py": "2\n"})
    origin.merged(base, head)
    return head, base


@pytest.mark.parametrize("depth", [1, 2])
def test_a_clone_too_shallow_to_tell_runs_everything(
    origin: Repository, tmp_path: Path, call: Call, depth: int
) -> None:
    origin.git("checkout", "--quiet", "-b", "change")
    base = origin.git("rev-parse", "main")
    for number in range(3):
        head = origin.commit({"README.md": f"{number}\n"})
    # The head itself is checked out, and no merge of it.
    clone = origin.shallow(tmp_path / "clone", depth)
    event = Event(name="pull_request", head=head, base=base)
    assert touched(clone.folder, event).why == f"{base} is not in this clone"
    code, found, said = call(clone, "pull_request", request(head, base))
    assert (code, found["unit"]) == (0, True)
    assert "is not in this clone" in said


def test_a_head_that_is_checked_out_whole_is_compared_with_where_it_left(
    origin: Repository, call: Call
) -> None:
    origin.git("checkout", "--quiet", "-b", "change")
    head = origin.commit({"README.md": "more\n"})
    origin.git("checkout", "--quiet", "main")
    base = origin.commit({"meanwhile.py": "2\n"})
    origin.git("checkout", "--quiet", head)
    _, found, _ = call(origin, "pull_request", request(head, base))
    assert not found["unit"]


def test_a_merge_of_somebody_elses_is_not_taken_for_the_pull_requests(origin: Repository, call: Call) -> None:
    # The branch itself took main in last: its first parent is its own past, not its base.
    origin.git("checkout", "--quiet", "-b", "change")
    code_commit = origin.commit({"a.py": "2\n"})
    origin.git("checkout", "--quiet", "main")
    base = origin.commit({"docs/x.md": "x\n"})
    head = origin.merged(code_commit, base)
    _, found, _ = call(origin, "pull_request", request(head, base))
    assert found["unit"]


@pytest.mark.parametrize("moved", [{}, {"docs/old.py": "x = 1\n" * 30}], ids=["deleted", "moved to docs"])
def test_code_that_goes_is_a_change_whatever_the_repository_says_of_renames(
    origin: Repository, call: Call, moved: dict[str, str]
) -> None:
    head, base = branch(origin, {"old.py": None, **moved})
    origin.git("config", "diff.renames", "copies")
    origin.git("config", "diff.relative", "true")
    assert call(origin, "pull_request", request(head, base))[1]["unit"]


def test_a_submodule_told_to_be_ignored_is_a_change(origin: Repository, call: Call) -> None:
    origin.commit({".gitmodules": '[submodule "s"]\n\tpath = s\n\turl = ./s\n\tignore = all\n'})
    origin.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},s")
    origin.git("commit", "--quiet", "--message", "a submodule")
    before = origin.git("rev-parse", "HEAD")
    (origin.folder / "README.md").write_text("more\n")
    origin.git("add", "README.md")
    origin.git("update-index", "--cacheinfo", f"160000,{'2' * 40},s")
    origin.git("commit", "--quiet", "--message", "another one")
    _, found, said = call(origin, "push", {"before": before, "after": origin.git("rev-parse", "HEAD")})
    assert found["unit"], said


def test_a_push_is_compared_with_what_was_there(origin: Repository, tmp_path: Path, call: Call) -> None:
    before = origin.git("rev-parse", "HEAD")
    after = origin.commit({"README.md": "more\n"})
    clone = origin.shallow(tmp_path / "clone", 2)
    _, found, _ = call(clone, "push", {"before": before, "after": after})
    assert not found["unit"]
    _, found, said = call(clone, "push", {"before": "0" * 40, "after": after})
    assert found["unit"]
    assert "the event names no commit before it" in said
    # Forced, or of more commits than were fetched.
    _, found, said = call(clone, "push", {"before": "c" * 40, "after": after})
    assert found["unit"]
    assert "cccccccccccc is not in this clone" in said


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch", "repository_dispatch", ""])
def test_other_events_are_about_everything(origin: Repository, call: Call, name: str) -> None:
    _, found, _ = call(origin, name, {})
    assert all(found[key] for key in (*DOCS_ONLY, "pytorch"))


def test_a_diff_of_nothing_runs_everything(origin: Repository, call: Call) -> None:
    before = origin.git("rev-parse", "HEAD")
    after = origin.commit({})
    _, found, said = call(origin, "push", {"before": before, "after": after})
    assert found["unit"]
    assert "no file differs" in said


@pytest.mark.parametrize("payload", [{}, {"pull_request": None}, {"pull_request": {"base": {"sha": "main"}}}])
def test_of_an_event_that_says_nothing_everything_runs_and_it_is_a_fork_s(
    origin: Repository, call: Call, payload: Any
) -> None:
    code, found, said = call(origin, "pull_request", payload)
    assert (code, found["unit"]) == (0, True)
    assert "the event names no base" in said
    # Who is judged by a base ends the job: a queue whose event does not name it.
    code, found, said = call(origin, "merge_group", {})
    assert (code, found) == (2, {})
    assert "the settings that decide on a merge_group are unknown" in said


HOSTILE = (
    "docs/a\nstage=5.md",
    "::error::gone",
    "x\x1b[31m.py",
    "-rf.py",
    'a"$(touch hit)".py',
    "| a | b |.py",
    "caf\u00e9\u202e.py",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_files_name_is_never_more_than_a_name(
    origin: Repository, tmp_path: Path, call: Call, name: str
) -> None:
    before = origin.git("rev-parse", "HEAD")
    after = origin.commit({name: "1\n"})
    code, found, said = call(origin, "push", {"before": before, "after": after})
    assert code == 0
    assert found["unit"] is not name.startswith("docs/")
    assert found["stage"] == 1
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert not any(line.startswith("::") for line in said.splitlines())
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert len([line for line in summary.splitlines() if line.startswith("| `unit`")]) == 1
    assert not (origin.folder / "hit").exists()


def test_a_name_that_is_no_text_is_a_name(origin: Repository) -> None:
    before = origin.git("rev-parse", "HEAD")
    (origin.folder / os.fsdecode(b"caf\xe9.py")).write_text("1\n")
    (origin.folder / "two\nlines.py").write_text("1\n")
    after = origin.commit({})
    found = touched(origin.folder, Event(name="push", head=after, base=before))
    assert found.files is not None
    assert sorted(found.files) == sorted([os.fsdecode(b"caf\xe9.py"), "two\nlines.py"])


def test_a_base_can_be_named_by_hand(origin: Repository, call: Call, tmp_path: Path) -> None:
    origin.git("checkout", "--quiet", "-b", "change")
    origin.commit({"README.md": "more\n"})
    code, found, _ = call(origin, "schedule", {}, "--base", "main", "--out", str(tmp_path / "out.json"))
    assert (code, found["unit"]) == (0, False)
    written = json.loads((tmp_path / "out.json").read_text())
    assert written.pop("schema") == "spyre-ci/changes/1"
    assert written == found
    for base in ("gone", "--output=hit", "main --output=hit"):
        _, found, said = call(origin, "schedule", {}, f"--base={base}")
        assert found["unit"]
        assert "is not in this clone" in said
    assert not (origin.folder / "hit").exists()


def test_histories_with_nothing_in_common_run_everything(origin: Repository, call: Call) -> None:
    origin.git("checkout", "--quiet", "--orphan", "other")
    head = origin.commit({"README.md": "more\n"})
    _, found, said = call(origin, "pull_request", request(head, origin.git("rev-parse", "main")))
    assert found["unit"]
    assert "this clone does not have the commit where" in said


def test_what_is_no_repository_runs_everything(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    found = touched(tmp_path / "plain", Event(name="push", base="a" * 40))
    assert found.files is None
    assert found.why.startswith("git failed: ended with code 128")
    Repository(tmp_path / "plain").git("init", "--quiet")
    assert touched(tmp_path / "plain", Event(name="push", base="a" * 40)).files is None


def test_jenkins_compares_a_change_with_its_target(origin: Repository, tmp_path: Path) -> None:
    origin.git("checkout", "--quiet", "-b", "change")
    head = origin.commit({"docs/a.md": "a\n"})
    origin.git("checkout", "--quiet", "main")
    origin.commit({"meanwhile.py": "2\n"})
    clone = Repository(tmp_path / "clone")
    origin.git("clone", "--quiet", str(origin.folder), str(clone.folder))
    clone.git("checkout", "--quiet", "--detach", head)
    # Jenkins merges the base into the change, so the first parent is the change.
    clone.git("merge", "--quiet", "--no-ff", "--no-edit", "origin/main")
    event = Event(name="pull_request", branch="main")
    assert touched(clone.folder, event).files == ("docs/a.md",)
    clone.git("update-ref", "-d", "refs/remotes/origin/main")
    assert touched(clone.folder, event).files is None


def test_outputs_that_cannot_be_written_end_the_job(
    origin: Repository, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(origin, "push", {})[0] == 0
    (tmp_path / "outputs").unlink()
    (tmp_path / "outputs").mkdir()
    assert run(["pipeline", "changes"]) == 2
    assert f"{tmp_path / 'outputs'}: cannot be used: Is a directory" in capsys.readouterr().err
    assert run(["pipeline", "changes", "--out", str(tmp_path)]) == 2


OVER = "a prerelease or a draft is not published"
UNKNOWN = "it is unknown whether the release was merged"


@pytest.mark.parametrize(
    ("tag", "changed", "branch", "said", "code"),
    [
        ("v1.0", {}, "main", "the released commit is on main", 0),
        *(("v1.0", one, "main", OVER, 0) for one in ({"prerelease": True}, {"draft": True}, {"draft": "no"})),
        ("v9.0", {}, "main", "the released commit is not on main", 1),
        *(("v9.0", {}, one, UNKNOWN, 2) for one in ("gone", "", "--all", "../tags/v9.0")),
    ],
)
def test_only_a_finished_release_of_what_was_merged_is_published(  # noqa: PLR0917  # a table's columns
    origin: Repository,
    tmp_path: Path,
    call: Call,
    tag: str,
    changed: dict[str, Any],
    branch: str,
    said: str,
    code: int,
) -> None:
    origin.git("tag", "v1.0")
    origin.git("checkout", "--quiet", "-b", "other")
    origin.commit({"a.py": "3\n"})
    origin.git("tag", "v9.0")
    # As actions/checkout makes it with fetch-depth: 0.
    clone = Repository(tmp_path / "clone")
    origin.git("clone", "--quiet", str(origin.folder), str(clone.folder))
    clone.git("checkout", "--quiet", tag)
    release = {"prerelease": False, "draft": False} | changed
    payload = {"release": release, "repository": {"default_branch": branch}}
    ended, found, told = call(clone, "release", payload)
    assert (ended, said in told) == (code, True)
    assert code or found["release"] is (said != OVER)
    assert call(clone, "workflow_dispatch", payload)[1]["release"] is False
