"""What a build is given, and what makes two of them the same; without building."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, CommandError
from ci.package import environment
from ci.package.artifacts import artifact
from ci.package.building import _refuse_clutter, differences, pack_again
from ci.package.compiling import CacheUse, cache_environment, cache_use, jobs_environment
from ci.package.environment import fitting, in_folder, interpreters, torch_pin
from ci.package.export import set_times
from tests.packages import make_sdist, make_wheel


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


def test_what_ccache_did_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert cache_use(log) is None
    log.write_text(
        "# a.cpp\ndirect_cache_hit\n# b.cpp\ndirect_cache_miss\npreprocessed_cache_hit\n# c\ncache_miss\n"
    )
    assert cache_use(log) == CacheUse(hits=2, misses=1)


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


def test_what_two_builds_differ_in_is_named(tmp_path: Path) -> None:
    one = [artifact(make_wheel(tmp_path / "a")), artifact(make_sdist(tmp_path / "a"))]
    same = [artifact(make_wheel(tmp_path / "b"))]
    other = [artifact(make_wheel(tmp_path / "c", files={"demo/__init__.py": "other", "demo/x.py": ""}))]
    assert differences(one[:1], same) == {}
    assert differences(one, same) == {"demo-1.0.tar.gz": ["made by one of the builds only"]}
    assert differences(one[:1], other) == {
        "demo-1.0-py3-none-any.whl": ["demo-1.0.dist-info/RECORD", "demo/__init__.py", "demo/x.py"]
    }


def test_the_same_members_in_another_order_are_a_difference(tmp_path: Path) -> None:
    files = {"demo/a.py": "1", "demo/b.py": "2"}
    first = artifact(make_sdist(tmp_path / "a", files=dict(files)))
    second = artifact(make_sdist(tmp_path / "b", files=dict(reversed(files.items()))))
    assert differences([first], [second]) == {"demo-1.0.tar.gz": ["order, times or rights of its members"]}


def test_a_tree_has_one_time_and_git_s_rights(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    tool(tmp_path / "d", "run")
    (tmp_path / "d" / "plain").write_text("")
    (tmp_path / "d" / "plain").chmod(0o666)
    (tmp_path / "d" / "link").symlink_to("/nowhere")
    set_times(tmp_path, 1_000_000_000)
    rights = {path.name: path.lstat().st_mode & 0o777 for path in (tmp_path / "d").iterdir()}
    assert rights["run"] == 0o755
    assert rights["plain"] == 0o644
    assert {int(path.lstat().st_mtime) for path in tmp_path.rglob("*")} == {1_000_000_000}


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
    with pytest.raises(CommandError, match=r"interpreter .*bad does not run: Exec format error"):
        interpreters(">=3.9", environ, ["bad"])


def test_a_pin_that_the_project_excludes_does_not_hold() -> None:
    pins = ["torch==2.13.0"]
    assert fitting(pins, ["torch", "numpy==1.0", "not a requirement ==="]) == ("torch==2.13.0",)
    assert fitting(pins, ["torch>=2.10", "torch; python_version > '3'"]) == ("torch==2.13.0",)
    assert fitting(pins, ["torch~=2.10.0"]) == ()


def test_torch_is_the_one_of_this_release() -> None:
    assert torch_pin() == ["torch==2.13.0"]


def test_what_only_has_an_artifacts_name_is_said_before_a_build(tmp_path: Path) -> None:
    _refuse_clutter(tmp_path / "gone")
    make_wheel(tmp_path)
    _refuse_clutter(tmp_path)
    (tmp_path / "x.tar.gz").symlink_to("gone")
    with pytest.raises(BadFileError, match=r"x\.tar\.gz: is a link that leads nowhere") as caught:
        _refuse_clutter(tmp_path)
    assert "the folder is for sdists and wheels" in str(caught.value)
    (tmp_path / "a.whl").mkdir()
    with pytest.raises(BadFileError, match=r"a\.whl: is no file"):
        _refuse_clutter(tmp_path)


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
