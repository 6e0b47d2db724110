from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci.changes.source_change import SourceChange, change_of_commits, change_of_diff
from ci.core.errors import UsageError
from ci.core.git import git

COMMIT = ("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits: `fork` and what two branches make of it, `main` and `side`, which is checked out."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, "kernels/add.py", "x = 1\n")
    write(folder, "kernels/mul.py", "y = 1\n")
    write(folder, "notes.txt", "words\n")
    commit(folder, "fork")
    git(folder, "tag", "fork")
    write(folder, "kernels/mul.py", "y = 2\n")
    commit(folder, "on main")
    git(folder, "checkout", "-q", "-b", "side", "fork")
    write(folder, "kernels/add.py", "x = 2\n")
    commit(folder, "on side")
    return folder


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, *COMMIT, message)


@pytest.mark.parametrize(
    ("named", "files"),
    [
        ("fork..side", ["kernels/add.py"]),
        ("fork..", ["kernels/add.py"]),
        ("main..side", ["kernels/add.py", "kernels/mul.py"]),
        ("main...side", ["kernels/add.py"]),
        ("HEAD..HEAD", []),
        ("HEAD", []),
        ("fork", ["kernels/add.py"]),
    ],
)
def test_a_change_is_named_by_its_commits(repository: Path, named: str, files: list[str]) -> None:
    assert list(change_of_commits(repository / "kernels", named).files) == files


def test_a_change_goes_up_to_the_files_as_they_lie_here(repository: Path) -> None:
    write(repository, "kernels/new.py", "z = 1\n")
    write(repository, "secret.txt", "known to one")
    (repository / "kernels/mul.py").unlink()
    before = git(repository, "status", "--porcelain")
    change = change_of_commits(repository, "HEAD")

    assert change.files == ("kernels/mul.py", "kernels/new.py", "secret.txt")
    assert change.python_files(change.head) == {"kernels/add.py": b"x = 2\n", "kernels/new.py": b"z = 1\n"}
    assert set(change.python_files(change.base, "kernels")) == {"kernels/add.py", "kernels/mul.py"}
    assert change.python_files(change.head, "kernels/new.py") == {"kernels/new.py": b"z = 1\n"}
    assert change.python_files(change.head, "nowhere") == {}
    assert git(repository, "status", "--porcelain") == before  # nothing was staged
    kept = git(repository, "hash-object", "secret.txt").strip()
    assert not (repository / ".git/objects" / kept[:2] / kept[2:]).exists()


@pytest.mark.parametrize("applied", [False, True])
def test_a_diff_is_one_to_come_or_one_that_is_in_already(
    repository: Path, tmp_path: Path, applied: bool
) -> None:
    write(repository, "kernels/add.py", "x = 3\n")
    diff = tmp_path / "change.diff"
    diff.write_text(git(repository, "diff"), encoding="utf-8")
    if applied:
        commit(repository, "the change")
    else:
        git(repository, "checkout", "-q", "--", ".")
    change = change_of_diff(repository, diff)

    assert change.files == ("kernels/add.py",)
    assert content(change, change.base) == "x = 2\n"
    assert content(change, change.head) == "x = 3\n"


def content(change: SourceChange, tree: str) -> str:
    return change.python_files(tree)["kernels/add.py"].decode()


def stale_diff(folder: Path) -> SourceChange:
    diff = folder / "stale.diff"
    lines = ["--- a/kernels/add.py", "+++ b/kernels/add.py", "@@ -1 +1 @@", "-x = 7", "+x = 8", ""]
    diff.write_text("\n".join(lines), encoding="utf-8")
    return change_of_diff(folder, diff)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (
            lambda folder: change_of_commits(folder, "nowhere..HEAD"),
            "'nowhere' is no commit of this repository",
        ),
        (lambda folder: change_of_commits(folder, "HEAD..--output=x"), "'--output=x' is no commit"),
        (lambda folder: change_of_commits(folder.parent, "HEAD"), "is in no Git repository"),
        (stale_diff, "does not apply to HEAD, neither way"),
    ],
)
def test_what_is_no_change_of_the_repository_is_refused(
    repository: Path, look: Callable[[Path], SourceChange], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        look(repository)
    assert said in str(caught.value)
    assert "remedy:" in str(caught.value)
