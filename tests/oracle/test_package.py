"""A small project goes from its checkout to a package index: looked at, built, verified, released, published.

What is built and verified once is looked at by many tests; each that changes something does so in a copy.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.calls import free_port, wait_for_server
from tests.oracle.conftest import TIMEOUT_S, Desk, Said, make_desk
from tests.packages import make_sdist, make_wheel
from tests.repositories import git

USER, TOKEN = "publisher", "pypi-s3cr3t-t0ken"
WHEEL, SDIST = "demo-0.3.0-py3-none-any.whl", "demo-0.3.0.tar.gz"
PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "0.3.0"
description = "made for tests"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.11"
scripts = { demo = "demo:main" }

[tool.setuptools]
packages = ["demo"]
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "README.md": "# demo\n\nMade for tests.\n",
    "LICENSE": "Apache-2.0\n",
    ".gitignore": "dist/\n.spyre-ci/\n",
    "demo/__init__.py": 'def main() -> None:\n    """Say it."""\n    print("demo")\n',
    "tests/unit/test_demo.py": "import demo\n\n\ndef test_it_is_there() -> None:\n    assert demo.main\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A checkout whose commit is tagged v0.3.0, and the command in it."""

    desk: Desk

    @property
    def folder(self) -> Path:
        return self.desk.folder

    def package(self, verb: str, *words: str, code: int | None = 0, **environ: str) -> Said:
        """Call `spyre-ci package VERB`; the token is in nothing that it says or keeps."""
        said = self.desk.call("package", verb, *words, code=code, **environ)
        kept = (path.read_text() for path in (self.folder / ".spyre-ci").rglob("*.json"))
        assert not any(TOKEN in text for text in (said.out, said.err, *kept))
        return said

    def publish(self, *words: str, code: int = 0, token: str = TOKEN) -> Said:
        return self.package("publish", "--index", "stage", *words, code=code, SPYRE_CI_INDEX_TOKEN=token)

    def record(self, step: str) -> Any:
        return self.desk.read(f".spyre-ci/records/{step}.json")

    def sums(self) -> dict[str, str]:
        """The files that were built, with their hashes."""
        return {path.name: sha256(path) for path in sorted((self.folder / "dist").iterdir())}

    def commit(self, message: str = "change") -> str:
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", message)
        return git(self.folder, "rev-parse", "HEAD")

    def copy(self, base: Path) -> Project:
        """The same in another folder, with its records and without environments that were built in."""
        folder = shutil.copytree(self.folder, base / "copy", ignore=shutil.ignore_patterns(".spyre-ci"))
        shutil.copytree(self.folder / ".spyre-ci/records", folder / ".spyre-ci/records")
        return Project(desk=replace(self.desk, folder=Path(folder)))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def new_project(base: Path, settings: dict[str, Any] | None = None) -> Project:
    made = Project(desk=make_desk(base, yaml.safe_dump({"package": settings}) if settings else ""))
    for name, text in FILES.items():
        made.desk.write(name, text)
    git(made.folder, "init", "--quiet", "--initial-branch=main")
    made.commit("first")
    git(made.folder, "tag", "v0.3.0")
    return made


def test_lint_finds_a_fault_where_it_is_mends_it_and_is_content_then(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    project.desk.write("demo/faulty.py", "import os, sys\nx = 1\n")
    project.desk.write("README.md", "This is teh project.\n")
    found = project.package("lint", "--json", code=1).json["findings"]
    told = {(one["linter"], one["path"]) for one in found}
    assert {("ruff", "demo/faulty.py"), ("codespell", "README.md")} <= told
    assert {one["line"] for one in found if one["linter"] == "codespell"} == {1}
    assert (project.folder / "README.md").read_text() == "This is teh project.\n", "looking changes nothing"
    assert project.package("lint", "--fix").code == 0
    assert (project.folder / "README.md").read_text() == "This is the project.\n"
    assert (project.folder / "demo/faulty.py").read_text() == "x = 1\n"
    assert project.package("lint").code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A package index that takes uploads of USER with TOKEN, and the folder of what it has."""

    address: str
    packages: Path

    def settings(self) -> dict[str, Any]:
        """Two names of it: one takes what is verified, the other what passed every step."""
        one = {
            "upload": f"{self.address}/",
            "simple": f"{self.address}/simple/",
            "user": USER,
            "timeout_s": 20,
        }
        indexes = {"stage": {**one, "gate": "none"}, "prod": {**one, "gate": "merge"}}
        return {"publish_timeout_s": 30, "indexes": indexes}

    def sums(self) -> dict[str, str]:
        return {path.name: sha256(path) for path in sorted(self.packages.iterdir())}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    for name in ("pypiserver", "passlib", "twine", "pypi_simple"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not found")
    folder, port = tmp_path_factory.mktemp("index"), free_port()
    packages, passwords = folder / "packages", folder / "htpasswd"
    packages.mkdir()
    digest = base64.b64encode(hashlib.sha1(TOKEN.encode()).digest()).decode()  # noqa: S324  # the file's format
    passwords.write_text(f"{USER}:{{SHA}}{digest}\n")
    words = ["--disable-fallback", "--backend", "simple-dir", "--interface", "127.0.0.1", "--port", str(port)]
    words += ["--authenticate", "update", "--passwords", str(passwords), str(packages)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pypiserver", "run", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        made = Index(address=f"http://127.0.0.1:{port}", packages=packages)
        wait_for_server(f"{made.address}/", process)
        yield made
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def empty_index(index: Index) -> Index:
    """The same without a file."""
    for path in index.packages.iterdir():
        path.unlink()
    return index


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, index: Index) -> Project:
    """The project, built while a file lies about that is not committed."""
    project = new_project(tmp_path_factory.mktemp("built"), index.settings())
    stray = project.desk.write("demo/not_committed.py", "secret = 1\n")
    told = project.package("build", "--json").json
    stray.unlink()
    assert told["version"] == "0.3.0"
    return project


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory, built: Project) -> Project:
    """The same, verified with a real installation."""
    project = built.copy(tmp_path_factory.mktemp("verified"))
    told = project.package("verify", "--json").json
    assert all(one["passed"] for one in told["checks"])
    return project


@pytest.mark.gate
def test_build_makes_what_is_committed_with_the_version_of_its_tag(built: Project) -> None:
    assert set(built.sums()) == {SDIST, WHEEL}
    record = built.record("build")
    assert (record["commit"], record["passed"]) == (git(built.folder, "rev-parse", "HEAD"), True)
    assert {one["name"]: one["sha256"] for one in record["files"]} == built.sums()
    with (
        tarfile.open(built.folder / "dist" / SDIST) as sdist,
        zipfile.ZipFile(built.folder / "dist" / WHEEL) as wheel,
    ):
        names = [*sdist.getnames(), *wheel.namelist()]
    assert "demo/__init__.py" in names
    assert not any("not_committed" in name for name in names)
    assert git(built.folder, "status", "--porcelain") == "", "the checkout stays as it was"


@pytest.mark.gate
def test_building_again_makes_the_same_bytes(built: Project, tmp_path: Path) -> None:
    again = built.copy(tmp_path)
    shutil.rmtree(again.folder / "dist")
    again.package("build")
    assert again.sums() == built.sums()


def failed(said: Said) -> str:
    """What did not pass, a line each."""
    return "\n".join(line for line in said.err.splitlines() if line.startswith("FAIL"))


@pytest.mark.gate
def test_verify_passes_what_was_built_and_says_what_it_looked_at(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    told = project.package("verify", "--no-install", "--json").json
    assert all(one["passed"] for one in told["checks"])
    assert {one["name"]: one["sha256"] for one in told["files"]} == project.sums()
    assert project.record("verify")["passed"] is False, "what nobody installed is not verified"


Harm = Callable[[Path], object]


def other_wheel(**given: Any) -> Harm:
    """Put this wheel into the place of the one that was built."""

    def harm(folder: Path) -> None:
        if "tag" in given:
            (folder / "dist" / WHEEL).unlink()
        make_wheel(folder / "dist", **{"version": "0.3.0", **given})

    return harm


CODE = "ANSWER = 42\n"
STRAY = {"demo/__init__.py": CODE, "stray/__init__.py": "", "demo/__pycache__/a.cpython-311.pyc": b"."}


def unreadable(folder: Path) -> None:
    fields = {"Description-Content-Type": "text/x-rst", "Description": "demo\n====\n\n`broken <\n"}
    make_sdist(folder / "dist", version="0.3.0", fields=fields)


# What harms the files, for which index, what it ends with, and words of the reason.
BAD: dict[str, tuple[Harm, tuple[str, ...], int, tuple[str, ...]]] = {
    "no files": (lambda folder: shutil.rmtree(folder / "dist"), (), 2, ("neither an sdist nor a wheel",)),
    "changed": (other_wheel(), (), 1, (f"changed since the build: {WHEEL}",)),
    "of two versions": (other_wheel(version="0.4.0"), (), 2, ("demo 0.3.0, demo 0.4.0",)),
    "stray files": (
        other_wheel(files=STRAY), (), 1, ("undeclared toplevel entry: stray/", "W001: Wheel contains .pyc"),
    ),
    "no record of contents": (other_wheel(record=False), (), 1, ("No RECORD file in wheel",)),
    "a text that cannot be shown": (unreadable, (), 1, ("twine", "would not be rendered on PyPI")),
    "a tag that PyPI does not take": (
        other_wheel(tag="py3-none-linux_x86_64", pure=False), ("--index", "pypi"), 1, ("linux_x86_64",),
    ),
}  # fmt: skip


@pytest.mark.gate
@pytest.mark.parametrize("name", BAD)
def test_verify_refuses_what_must_not_be_published_and_says_why(
    built: Project, tmp_path: Path, name: str
) -> None:
    project, (harm, words, code, reasons) = built.copy(tmp_path), BAD[name]
    harm(project.folder)
    said = project.package("verify", "--no-install", *words, code=code)
    told = failed(said) if code == 1 else said.err
    assert all(reason in told for reason in reasons), said.err


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("demo/__init__.py", "raise RuntimeError('cannot be imported')\n", "cannot be imported"),
        ("pyproject.toml", PYPROJECT.replace(">=3.11", ">=3.99"), "requires-python"),
    ],
)
def test_verify_refuses_what_does_not_install_or_import(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    project = new_project(tmp_path)
    project.desk.write(name, text)
    git(project.folder, "tag", "--delete", "v0.3.0")
    project.commit()
    git(project.folder, "tag", "v0.3.0")
    project.package("build")
    said = project.package("verify", code=1)
    assert reason in said.err
    assert len(failed(said).splitlines()) == 1, "of the wheel"
    assert project.record("verify")["passed"] is False


@pytest.mark.gate
def test_release_writes_what_is_released_and_stays_shut_where_a_step_is_missing(
    verified: Project, tmp_path: Path
) -> None:
    project = verified.copy(tmp_path)
    said = project.package("release", "--index", "prod", code=1)
    assert "lint: was not run" in said.err
    assert "unit: was not run" in said.err
    assert project.package("release", "--index", "stage").code == 0
    told = project.record("release")
    assert (told["project"], told["version"]) == ("demo", "0.3.0")
    assert told["source"]["commit"] == git(project.folder, "rev-parse", "HEAD")
    assert {one["name"]: one["sha256"] for one in told["files"]} == project.sums()
    lines = (project.folder / ".spyre-ci/records/SHA256SUMS").read_text().splitlines()
    assert {f"{digest}  {name}" for name, digest in project.sums().items()} <= set(lines)


def forget(project: Project) -> None:
    (project.folder / ".spyre-ci/records/verify.json").unlink()


def change(project: Project) -> None:
    make_wheel(project.folder / "dist", version="0.3.0", files={"demo/__init__.py": "changed = 1\n"})


def add(project: Project) -> None:
    make_wheel(project.folder / "dist", version="0.3.0", tag="cp311-abi3-any")


def go_on(project: Project) -> None:
    project.desk.write("demo/more.py", CODE)
    project.commit()


def soil(project: Project) -> None:
    project.desk.write("README.md", "# another\n")


def fail(project: Project) -> None:
    assert project.package("verify", "--no-install").code == 0


REFUSED: dict[str, tuple[Callable[[Project], None], str]] = {
    "not verified": (forget, "verified: not recorded"),
    "not installed when it was verified": (fail, "verified: "),
    "changed after it was verified": (change, f"{WHEEL}: sha256 "),
    "not among what was verified": (add, "was not verified"),
    "of another commit": (go_on, "commit: verified "),
    "of a changed checkout": (soil, "differs from its commit: README.md"),
}


@pytest.mark.gate
@pytest.mark.parametrize("name", REFUSED)
def test_what_was_not_verified_is_not_published(
    verified: Project, empty_index: Index, tmp_path: Path, name: str
) -> None:
    project, (harm, reason) = verified.copy(tmp_path), REFUSED[name]
    harm(project)
    assert reason in " ".join(project.publish(code=1).err.split())
    assert empty_index.sums() == {}


def command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return found


def publish_watched(project: Project) -> tuple[str, list[bytes]]:
    """Publish; what it says, and the command lines of every process meanwhile."""
    seen: list[bytes] = []
    with project.desk.start("package", "publish", "--index", "stage", SPYRE_CI_INDEX_TOKEN=TOKEN) as process:
        end = time.monotonic() + TIMEOUT_S
        while process.poll() is None:
            assert time.monotonic() < end
            seen += command_lines()
            time.sleep(0.02)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out + err
    return out + err, seen


@pytest.mark.gate
def test_what_was_verified_is_published_once_and_its_token_is_nowhere(
    verified: Project, empty_index: Index, tmp_path: Path
) -> None:
    project = verified.copy(tmp_path)
    project.publish("--dry-run")
    assert empty_index.sums() == {}
    for token, code in {"": 2, "pypi-wr0ng": 2}.items():
        assert not token or token not in project.publish(code=code, token=token).err
    assert empty_index.sums() == {}
    said, seen = publish_watched(project)
    assert TOKEN not in said
    assert any(b"publish\0--index" in line for line in seen), "what runs is seen"
    assert not any(TOKEN.encode() in line for line in seen)
    assert empty_index.sums() == project.sums()
    noted = project.record("published-stage")
    assert (noted["installed"], noted["version"]) == ([WHEEL], "0.3.0")
    # Again: nothing is uploaded, and no token is needed for that.
    written = {path.name: path.stat().st_mtime_ns for path in empty_index.packages.iterdir()}
    again = project.desk.call("package", "publish", "--index", "stage", "--json").json
    assert again["state"] == {"uploaded": [], "there": [WHEEL, SDIST], "absent": [], "unsure": []}
    assert {path.name: path.stat().st_mtime_ns for path in empty_index.packages.iterdir()} == written


@pytest.mark.nightly
def test_a_commit_goes_the_whole_way_and_runs_from_the_index(empty_index: Index, tmp_path: Path) -> None:
    project = new_project(tmp_path, empty_index.settings())
    (project.folder / ".spyre-ci").mkdir()  # records are kept where a project wants them
    project.package("publish", "--index", "prod", code=2, SPYRE_CI_INDEX_TOKEN=TOKEN)
    for verb in ("lint", "unit", "build", "verify"):
        assert empty_index.sums() == {}
        project.package(verb)
    project.package("release", "--index", "prod")
    project.package("publish", "--index", "prod", SPYRE_CI_INDEX_TOKEN=TOKEN)
    assert empty_index.sums() == project.sums()
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=TIMEOUT_S)
    words = ["--no-deps", "--index-url", f"{empty_index.address}/simple/", "demo==0.3.0"]
    environ = {key: one for key, one in os.environ.items() if not key.startswith("PIP_")}
    subprocess.run([folder / "bin/pip", "install", *words], check=True, timeout=TIMEOUT_S, env=environ)
    ran = subprocess.run([folder / "bin/demo"], check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "demo\n"
    # The next commit has to go the whole way itself, and what is published never changes.
    project.desk.write("demo/__init__.py", FILES["demo/__init__.py"].replace('"demo"', '"other"'))
    git(project.folder, "tag", "--delete", "v0.3.0")
    project.commit()
    git(project.folder, "tag", "v0.3.0")
    for verb in ("build", "verify"):
        project.package(verb)
    assert "lint: for demo at " in project.package("release", "--index", "prod", code=1).err
    before = empty_index.sums()
    assert "what is published never changes" in project.publish(code=1).err
    assert empty_index.sums() == before
