"""How what the field's tools say of an artifact is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import CommandError
from ci.package.artifacts import artifact
from ci.package.installation import in_a_line
from ci.package.project import Project, ProjectTable, Pyproject, Source
from ci.package.records import BUILD, Record
from ci.package.verify import check_build, check_libraries, tools_for
from tests.packages import make_sdist, make_wheel

COMMIT = "c" * 40
LINUX = "cp311-cp311-manylinux_2_28_x86_64"


def project(folder: Path, **tool: Any) -> Project:
    told = Pyproject(project=ProjectTable(name="demo"), tool=tool)
    return Project(folder=folder, pyproject=told, source=Source(commit=COMMIT))


TRACE = """
  |   ^^^^
  |   File "a.py", line 1, in f
  |     g()
  |     ~^^
  |   File "b.py", line 2, in g
  |     1 / 0
  |     ~~^~~
  | ZeroDivisionError: by zero
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ended with code 1: twine", "ended with code 1: twine"),
        ("ended with code 1: twine\n  | ERROR  no\n  |  README", "ERROR no README"),
        (
            "ended" + TRACE,
            'File "b.py", line 2, in g 1 / 0 ZeroDivisionError: by zero',
        ),
    ],
)
def test_what_a_tool_printed_last_is_told_in_a_line(said: str, told: str) -> None:
    assert in_a_line(CommandError(said)) == told


@pytest.mark.parametrize(
    ("libraries", "symbols", "wrong"),
    [
        ([], "manylinux_2_17_x86_64", ""),
        (["libtorch.so"], "manylinux_2_28_x86_64", ""),
        (
            ["libtorch.so", "libfoo.so.1"],
            "manylinux_2_17_x86_64",
            "links libfoo.so.1, which it does not contain",
        ),
        ([], "manylinux_2_34_x86_64", "its symbols need manylinux_2_34_x86_64"),
    ],
)
def test_what_auditwheel_sees_is_judged(
    tmp_path: Path, libraries: list[str], symbols: str, wrong: str
) -> None:
    shown = json.dumps({"sym_tag": symbols, "external_libs": dict.fromkeys(libraries)})
    wheel = artifact(make_wheel(tmp_path, tag=LINUX, pure=False))
    found = check_libraries(wheel, shown, excluded=["libtorch*"])
    assert found.passed is not bool(wrong)
    assert wrong in found.seen


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({}, f"built from {COMMIT[:12]}"),
        ({"dirty": ("a",)}, f"built from {COMMIT[:12]}, with 1 uncommitted change: it cannot be published"),
        ({"commit": "d" * 40}, f"built from {'d' * 12}, but {COMMIT[:12]} is checked out"),
        ({"details": {}}, "changed since the build: demo-1.0-py3-none-any.whl"),
    ],
)
def test_what_is_verified_is_what_was_built_of_this_commit(
    tmp_path: Path, change: dict[str, Any], seen: str
) -> None:
    wheel = artifact(make_wheel(tmp_path))
    built: dict[str, Any] = {
        "step": BUILD, "project": "demo", "commit": COMMIT, "passed": True,
        "details": {"files": [wheel.as_json()]},
    }  # fmt: skip
    found = check_build(project(tmp_path), [wheel], Record(**{**built, **change}))
    assert (found.seen, found.passed) == (seen, change.keys() <= {"dirty"})


def test_each_tool_is_asked_of_each_file_by_the_projects_own_rules(tmp_path: Path) -> None:
    files = [artifact(make_sdist(tmp_path)), artifact(make_wheel(tmp_path))]
    asked = list(tools_for(project(tmp_path), files, []))
    assert [one.check for one in asked] == [
        "pyproject.toml", "sdist twine check", "wheel twine check", "wheel check-wheel-contents",
    ]  # fmt: skip
    assert asked[-1].words[1:4] == ["--no-config", "--toplevel", "demo,demo.libs"]
    (*_, named) = tools_for(project(tmp_path), files, ["a", "b"])
    assert named.words[3] == "a,b,demo.libs"
    (*_, own) = tools_for(project(tmp_path, **{"check-wheel-contents": {}}), files, [])
    assert own.words[1:3] == ["--config", tmp_path / "pyproject.toml"]
