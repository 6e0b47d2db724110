"""What a build is given, and what makes two of them the same; without building."""

from __future__ import annotations

import io
import os
import tarfile
from importlib.metadata import requires
from itertools import pairwise
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.package import environment
from ci.package.building import How, container_words, pack_again, remedy_for
from ci.package.compiling import cache_environment, jobs_environment
from ci.package.environment import fitting, in_folder, interpreters, torch_pin
from tests.packages import make_sdist


def test_as_many_jobs_as_fit_unless_the_user_says() -> None:
    assert jobs_environment({}, 3) == {"MAX_JOBS": "3", "CMAKE_BUILD_PARALLEL_LEVEL": "3"}
    assert jobs_environment({"MAX_JOBS": "1"}, 3)["MAX_JOBS"] == "1"


def tool(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_compilers_run_behind_ccache_where_it_is(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "g++")
    environ = {"PATH": str(tmp_path / "bin"), "CCACHE_COMPILERCHECK": "mtime"}
    assert cache_environment(environ, tmp_path / "work") == {}
    tool(tmp_path / "bin", "ccache")
    given = cache_environment(environ, tmp_path / "work")
    first = Path(given["PATH"].split(os.pathsep)[0])
    assert (first / "g++").resolve() == tmp_path / "bin" / "ccache"
    assert not (first / "gcc").exists()
    assert given["CCACHE_BASEDIR"] == str(tmp_path / "work")
    assert given["CCACHE_COMPILERCHECK"] == "mtime"
    assert cache_environment(environ, tmp_path / "work") == given


def test_an_sdist_is_packed_by_one_rule(tmp_path: Path) -> None:
    def pack(name: str, times: int, mode: int, *order: str) -> Path:
        path = tmp_path / name / "demo-1.0.tar.gz"
        path.parent.mkdir()
        with tarfile.open(path, "w:gz") as packed:
            for member in order:
                entry = tarfile.TarInfo(f"demo-1.0/{member}")
                entry.mtime, entry.mode, entry.uid, entry.uname, entry.size = times, mode, times, "me", 1
                packed.addfile(entry, io.BytesIO(b"x"))
        return path

    first, second = pack("a", 5, 0o600, "a", "b"), pack("b", 9, 0o664, "b", "a")
    for path in (first, second):
        pack_again(path, 1_700_000_000)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as packed:
        assert [(one.name, one.mtime, one.mode, one.uid, one.uname) for one in packed] == [
            ("demo-1.0/a", 1_700_000_000, 0o644, 0, ""),
            ("demo-1.0/b", 1_700_000_000, 0o644, 0, ""),
        ]


def test_links_and_programs_stay_what_they_are(tmp_path: Path) -> None:
    link, program = tarfile.TarInfo("demo-1.0/l"), tarfile.TarInfo("demo-1.0/p")
    link.type, link.linkname, program.mode = tarfile.SYMTYPE, "p", 0o700
    path = make_sdist(tmp_path, files={"l": link, "p": program})
    pack_again(path, 0)
    with tarfile.open(path) as packed:
        assert packed.getmember("demo-1.0/l").linkname == "p"
        assert packed.getmember("demo-1.0/p").mode == 0o755


def test_another_environments_variables_are_not_handed_on(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "PYTHONPATH": "/x", "PYTEST_ADDOPTS": "-x", "HOME": "/h", "PIP_CERT": "/c"}
    made = in_folder(tmp_path, environ)
    assert made.variables["PATH"] == f"{tmp_path}/bin:/bin"
    assert not {"PYTHONPATH", "PYTEST_ADDOPTS"} & made.variables.keys()
    assert made.variables["PIP_CERT"] == "/c"


def test_what_builds_and_installs_sees_no_secret_of_the_job(tmp_path: Path) -> None:
    names = [
        "SPYRE_CI_INDEX_TOKEN", "GITHUB_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_RUNTIME_TOKEN", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT",
        "GITHUB_STEP_SUMMARY", "GITHUB_STATE", "TWINE_PASSWORD", "TWINE_USERNAME",
    ]  # fmt: skip
    installs = {"PIP_INDEX_URL": "https://me:x@example.org/simple", "PIP_CERT": "/c", "PIP_NO_INDEX": "1"}
    made = in_folder(tmp_path, {**dict.fromkeys(names, "x"), **installs, "PATH": "/bin"})
    assert made.variables.keys() == {*installs, "PATH", "VIRTUAL_ENV", "PYTHONNOUSERSITE"}


def test_what_is_installed_is_held_to_constraints_beside_the_users(tmp_path: Path) -> None:
    made = in_folder(tmp_path, {"PATH": "/bin", "PIP_CONSTRAINT": "mine.txt"}, constraints=["torch==2.13.0"])
    assert (tmp_path / "constraints.txt").read_text() == "torch==2.13.0\n"
    file = (tmp_path / "constraints.txt").as_uri()
    assert made.variables["PIP_CONSTRAINT"] == f"mine.txt {file}"
    assert made.variables["PIP_BUILD_CONSTRAINT"] == file
    assert "PIP_CONSTRAINT" not in in_folder(tmp_path, {}).variables


def test_an_interpreter_that_cannot_be_executed_is_passed_over_unless_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(words: list[str], **_: object) -> str:
        if "bad" in words[0] or words[0].endswith("python3.12"):
            raise OSError(8, "Exec format error", words[0])
        return "gibberish" if words[0].endswith("python3.13") else "3.11.4\n"

    monkeypatch.setattr("ci.package.environment.run_command", run)
    for name in ("python3.11", "python3.12", "python3.13", "bad"):
        tool(tmp_path / "bin", name)
    environ = {"PATH": str(tmp_path / "bin")}
    assert [short for _, short in interpreters(">=3.9", environ)] == ["3.11"]
    with pytest.raises(CommandError, match="the interpreter 'bad' is not found or does not run"):
        interpreters(">=3.9", environ, ["bad"])


def test_a_pin_that_the_project_excludes_does_not_hold() -> None:
    pins = ["torch==2.13.0"]
    assert fitting(pins, ["torch", "numpy==1.0", "not a requirement ==="]) == ("torch==2.13.0",)
    assert fitting(pins, ["torch>=2.10", "torch; python_version > '3'"]) == ("torch==2.13.0",)
    assert fitting(pins, ["Torch~=2.10.0"]) == ()


def test_torch_is_the_one_of_this_release_and_any_where_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert torch_pin() == ["torch==2.13.0"]
    monkeypatch.setattr(environment, "requires", lambda _: requires("no-such-project"))
    assert torch_pin() == []


def test_an_index_s_password_is_in_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise CommandError(
            "ended with code 1: pip\n  | no port 's3cr/et' in https://me:s3cr/et@index.example/"
        )

    monkeypatch.setattr(environment, "run_command", fail)
    made = in_folder(tmp_path, {"PATH": "/bin", "PIP_INDEX_URL": "https://me:s3cr/et@index.example/"})
    for call in (lambda: made.install(["x"]), lambda: made.run(["-V"], timeout_s=1)):
        with pytest.raises(CommandError, match="ended with code 1: pip") as caught:
            call()
        assert "s3cr" not in str(caught.value)


NOT_THERE = [
    "  File 'setup.py'",
    "ModuleNotFoundError: No module named 'sendnn.core'",
    "ERROR Backend exited",
]
UNMET = ["ERROR Unmet dependencies (checked against python3):", "\ttorch~=2.10.0"]


@pytest.mark.parametrize(
    ("lines", "how", "words"),
    [
        (["error: no"], How(), ["fix the project"]),
        (
            NOT_THERE,
            How(),
            ["add what provides sendnn.core to [build-system] requires", "--in-image", "--no-isolation"],
        ),
        (NOT_THERE, How(isolated=False), ["install sendnn.core here", "--in-image IMAGE"]),
        (NOT_THERE, How(image="runtime:1"), ["build in an image that has sendnn.core"]),
        (UNMET, How(image="runtime:1"), ["an image that has what is listed above"]),
        (UNMET, How(isolated=False), ["install what is listed above here"]),
    ],
)
def test_a_module_that_is_missing_names_where_to_build(lines: list[str], how: How, words: list[str]) -> None:
    said = remedy_for(lines, how)
    assert all(one in said for one in words), said


def test_a_build_in_an_image_sees_its_folder_and_variables_and_no_more(tmp_path: Path) -> None:
    words = container_words("one", "runtime:1", tmp_path, {"MAX_JOBS": "2"})
    assert words[words.index("--volume") + 1] == f"{tmp_path}:{tmp_path}"
    assert words[words.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    given = [value for flag, value in pairwise(words) if flag == "--env"]
    assert [one.partition("=")[0] for one in given] == [
        "MAX_JOBS", "HOME", "PYTHONDONTWRITEBYTECODE",
    ]  # fmt: skip
    assert words[-2:] == ["python3", "runtime:1"]
