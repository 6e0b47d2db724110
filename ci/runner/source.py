"""Where the tests come from: the embedded op suite, or PyTorch's tree (folder, archive or repository)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ci.core.archives import MOST_BYTES, MOST_FILES, damage
from ci.core.errors import BadFileError, CommandError, MissingInputError
from ci.core.git import git
from ci.runner.checkout import COMMIT_FILE, checkout
from test_selection.files import read_bounded

OP_SUITE = Path(__file__).parent.parent / "device" / "op_suite"
# In a tree that stands for a project of its own: the conftest.py files of its tests count.
PROJECT_FILE = ".spyre-ci-project"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Tests on this machine.

    Attributes:
        where: what the user named, for the command that reproduces a test; None for the op suite.
        tests: the folder test files are named relative to.
        version: PyTorch's version as the tree states it; empty where it does not.
        sha: the exact Git SHA, or `<version>+sha256.<hash>` of a tree without Git.
        own_conftest: whether the tree's conftest.py files count; PyTorch's belong to another pytest.
        files: the Python files that the hash is of, below `tests`; empty where a commit says it all.
    """

    where: str | None
    tests: Path
    version: str
    sha: str
    own_conftest: bool = False
    files: tuple[str, ...] = ()

    def is_still(self, sha: str, files: Sequence[str]) -> bool:
        """Whether the tests are those that had this SHA; files that came since, as from a test, are none.

        Args:
            sha: of the tests then.
            files: that it was the hash of; empty for a commit.
        """
        return self.sha == sha or (bool(files) and sha == _content_sha(self.tests, self.version, files))


def op_suite(version: str) -> Source:
    """The embedded op suite, for torch `version`."""
    files = _python_files(OP_SUITE)
    sha = _content_sha(OP_SUITE, version, files)
    return Source(where=None, tests=OP_SUITE, version=version, sha=sha, files=files)


def fetch(where: str, cache: Path) -> Source:
    """Make a PyTorch tree available.

    Args:
        where: a folder, a `.tar[.gz|.xz|.bz2]` or `.zip` file, or `git+URL@ref`.
        cache: folder for what is unpacked or cloned.

    Raises:
        MissingInputError: there is no such folder or archive, or it holds no `test/` folder.
        BadFileError: the archive is broken, too large, or reaches outside its folder.
        CommandError: git could not fetch the ref.
        UsageError: the Git address is not `git+URL@ref`.
    """
    if where.startswith("git+"):
        return _tree(checkout(where, cache), where)
    path = Path(where).expanduser().resolve()
    if path.is_dir():
        return _tree(path, where)
    if path.is_file():
        return _tree(_unpack(path, cache), where)
    raise MissingInputError(
        "there is no such folder or archive",
        where=where,
        remedy="name a PyTorch source folder, an archive of one, or git+URL@ref with --pytorch-src",
    )


def _tree(root: Path, where: str) -> Source:
    tests = root / "test"
    if not tests.is_dir():
        raise MissingInputError(
            "has no test/ folder, so it is not PyTorch's source tree",
            where=root,
            remedy="name the folder with test/ and version.txt",
        )
    version_file = root / "version.txt"
    version = (
        version_file.read_text(encoding="utf-8", errors="replace").strip() if version_file.is_file() else ""
    )
    commit = _commit(root)
    files = () if commit else _python_files(tests)
    return Source(
        where=where,
        tests=tests,
        version=version,
        sha=commit or _content_sha(tests, version, files),
        own_conftest=(root / PROJECT_FILE).is_file(),
        files=files,
    )


def _commit(root: Path) -> str:
    """The commit of a tree as git, or a file in it, tells it; empty where neither does."""
    if (root / ".git").exists():
        try:
            return git(root, "rev-parse", "HEAD", timeout_s=60).strip()
        except CommandError:
            pass  # a .git that git refuses (another owner, a worktree cut off) is as none
    with contextlib.suppress(OSError, UnicodeDecodeError):
        told = (root / COMMIT_FILE).read_text(encoding="utf-8").strip()
        if _COMMIT.fullmatch(told):
            return told
    return ""


def _python_files(folder: Path) -> tuple[str, ...]:
    return tuple(str(path.relative_to(folder)) for path in sorted(folder.rglob("*.py")))


def _content_sha(folder: Path, version: str, files: Sequence[str]) -> str:
    """A hash of Python files' paths and contents, so that two machines name the same tree the same."""
    digest = hashlib.sha256()
    for name in files:
        digest.update(os.fsencode(name) + b"\0")
        try:
            digest.update(hashlib.sha256(read_bounded(folder / name)).digest())
        except OSError as error:  # a broken link, say: collecting tells of that file, if it is one of tests
            digest.update(f"errno {error.errno}".encode())
    return f"{version or 'unknown'}+sha256.{digest.hexdigest()[:16]}"


def _unpack(archive: Path, cache: Path) -> Path:
    stat = archive.stat()
    state = os.fsencode(archive) + f"\0{stat.st_size}\0{stat.st_mtime_ns}".encode()
    key = hashlib.sha256(state).hexdigest()[:16]
    folder = cache / f"archive-{key}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=cache, prefix=".unpacking-"))
        try:
            _extract(archive, staging)
            with contextlib.suppress(OSError):  # another process was first, and its folder is as good
                staging.replace(folder)
            folder.stat()
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.utime(folder)  # what was used last is pruned last
    inner = [entry for entry in folder.iterdir() if entry.is_dir()]
    return inner[0] if len(inner) == 1 and not (folder / "test").is_dir() else folder


def _extract(archive: Path, into: Path) -> None:
    with damage(archive, "cannot be unpacked", "name a complete .tar or .zip archive"):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                infos = packed.infolist()
                _check_members([(info.filename, info.file_size) for info in infos], archive)
                packed.extractall(into)  # noqa: S202  # every member was checked above
            return
        with tarfile.open(archive) as tar:
            # Links and devices are left out: no test file needs one, and each is a way out of the folder.
            members = [member for member in tar.getmembers() if member.isfile() or member.isdir()]
            _check_members([(member.name, member.size) for member in members], archive)
            # Python 3.11.2 has no filters yet; what they would refuse is refused above.
            guard = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(into, members=members, **guard)  # type: ignore[arg-type]  # noqa: S202  # checked above
            while tar.fileobj.read(1 << 20):
                pass  # the checksum stands at the very end


def _check_members(members: list[tuple[str, int]], archive: Path) -> None:
    for name, _ in members:
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts:
            raise BadFileError(
                f"holds {name!r}, which reaches outside", where=archive, remedy="use another archive"
            )
    if len(members) > MOST_FILES or sum(size for _, size in members) > MOST_BYTES:
        raise BadFileError(
            f"holds {len(members)} files, more or larger than a PyTorch tree",
            where=archive,
            remedy="name an archive of PyTorch's source only",
        )
