"""A machine that has `pip install spyre-ci` and nothing else: told in full, and not by falling over."""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
import venv
from collections.abc import Collection
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .conftest import ROOT, doctor


def bare(folder: Path, *, without: Collection[str] = ()) -> str:
    """The interpreter of an environment with spyre-ci, what it requires, and neither pip nor any extra.

    Args:
        folder: that it is made in.
        without: requirements that are left out, as after an accident.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in _closure(project["dependencies"]) - set(without):
        files = importlib.metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}:
            if not (packages / top).exists():
                there = importlib.metadata.distribution(name).locate_file(top)
                (packages / top).symlink_to(str(there))
    for name in ("ci", "test_selection"):
        (packages / name).symlink_to(ROOT / name)
    info = packages / f"spyre_ci-{project['version']}.dist-info"
    info.mkdir()
    requires = [f"Requires-Dist: {one}" for one in project["dependencies"]]
    torch = [f"Requires-Dist: {one} ; extra == 'torch'" for one in project["optional-dependencies"]["torch"]]
    head = ["Metadata-Version: 2.1", "Name: spyre-ci", f"Version: {project['version']}"]
    (info / "METADATA").write_text("\n".join([*head, *requires, *torch]) + "\n")
    return str(folder / "bin" / "python")


def _closure(requirements: Collection[str]) -> set[str]:
    found: set[str] = set()
    left = [(Requirement(one), "") for one in requirements]
    while left:
        one, extra = left.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(one.name)
        more = [Requirement(text) for text in importlib.metadata.requires(name) or []]
        left += [(inner, wanted) for wanted in one.extras for inner in more]
        if name not in found:
            found.add(name)
            left += [(inner, "") for inner in more]
    return found


def test_a_bare_machine_is_told_what_it_lacks(tmp_path: Path) -> None:
    """No path, no home, no pip, no torch, no nox."""
    python = bare(tmp_path / "v")
    folder = tmp_path / "a folder"
    folder.mkdir()
    shown = doctor(folder, environ={"SPYRE_CI__RUN__LEASES": str(tmp_path / "l")}, python=python)
    assert (shown.code, shown.faults, shown.err) == (2, ["torch"], ""), shown.findings
    assert shown.of("python")[0]["message"].endswith("no settings file: all defaults")
    assert shown.of("nox")[0]["message"].startswith("not needed: no noxfile.py in ")
    assert shown.of("torch")[0]["message"] == "not installed in this environment"
    assert shown.of("torch")[0]["remedy"].startswith(f"{python} -m pip install torch==")
    assert shown.of("index")[0]["message"] == "not checked: there is no pip in this environment"
    assert [one["level"] for one in shown.of("device")] == ["warning"], "there is no back end"
    for check in ("cards", "registry", "cluster", "hud", "clock", "tokens"):
        assert [one["level"] for one in shown.of(check)] == ["ok"], shown.of(check)
    assert not any(folder.iterdir()), "checking leaves nothing behind"


def test_what_is_not_installed_is_told_with_what_installs_it(tmp_path: Path) -> None:
    """Requirements that got lost, and an extra that a cluster wants."""
    python = bare(tmp_path / "v", without={"docker", "uvicorn"})
    (tmp_path / "k").write_text("{}")
    environ = {"KUBECONFIG": str(tmp_path / "k"), "DOCKER_HOST": "unix:///nowhere"}
    only = [word for name in ("python", "cluster", "engine") for word in ("--only", name)]
    shown = doctor(tmp_path, *only, environ=environ, python=python)
    assert (shown.code, shown.faults) == (2, ["python", "engine"])
    (found,) = shown.of("python")
    assert "2 requirements of spyre-ci not met: docker>=" in found["message"]
    assert found["remedy"].startswith(f"{python} -m pip install 'docker>=")
    (cluster,) = shown.of("cluster")
    assert (cluster["level"], cluster["remedy"]) == ("warning", "pip install 'spyre-ci[jobs]'")
    assert "No module named 'docker'" in shown.of("engine")[0]["message"]
