"""`spyre-ci init` in real Git repositories of torch-spyre's shape: written, and never run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.init.files import TEMPLATES
from tests.integration.conftest import need
from tests.integration.init.checkouts import TORCH_ACME, TORCH_SPYRE, Checkout, make

ROOT = Path(__file__).parents[3]


def spyre_ci(folder: Path, *words: str, code: int = 0, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ci.cli", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def init(checkout: Checkout, *words: str, code: int = 0) -> dict[str, Any]:
    """What the verb says for machines; without a process of its own, which takes most of its time."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert run(["init", str(checkout.folder), "--json", "--toolkit-ref", "1" * 40, *words]) == code
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {one["path"]: one["status"] for one in found["files"]}


@pytest.fixture
def spyre(tmp_path: Path) -> Checkout:
    return make(tmp_path / "torch-spyre", TORCH_SPYRE, origin="https://github.com/torch-spyre/torch-spyre")


def test_torch_spyre_is_known_and_not_run_and_only_new_files_are_written(spyre: Checkout) -> None:
    before = spyre.files()
    shown = init(spyre)
    assert spyre.files() == before
    assert (shown["device"], shown["package"], shown["branch"]) == ("spyre", "torch_spyre", "main")
    assert shown["repository"] == "torch-spyre/torch-spyre"
    assert not any("assumed" in one for one in shown["notes"])
    assert "runs write runs/ and .spyre-ci/ here: add both to .gitignore" in shown["notes"]
    spyre.write(".gitignore", ".spyre-ci/\nruns/\n")
    assert not any("ignore" in one for one in init(spyre)["notes"])
    (spyre.folder / ".gitignore").unlink()
    assert set(statuses(init(spyre, "--write")).values()) == {"created"}
    after = spyre.files()
    # What was there is as it was, and nothing was imported: it would have left a file.
    assert {name: after.pop(name) for name in TEMPLATES}
    assert after == before
    assert "# pytorch: {source: " in spyre.read("spyre-ci.yaml")
    spyre.commit()
    assert set(statuses(init(spyre, "--write")).values()) == {"unchanged"}
    assert spyre.git("status", "--porcelain") == ""


def test_worktrees_and_submodules_are_checkouts_and_a_folder_below_gets_settings(
    spyre: Checkout, tmp_path: Path
) -> None:
    spyre.git("worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "change")
    above = make(tmp_path / "above", {"README.md": ""})
    above.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(spyre.folder), "sub")
    for folder in (tmp_path / "tree", above.folder / "sub"):
        assert statuses(init(Checkout(folder))).keys() == TEMPLATES.keys()
    found = init(Checkout(spyre.folder / "tests"), "--write", "--device", "spyre")
    assert statuses(found) == {"spyre-ci.yaml": "created"}
    assert any("gets settings alone" in one for one in found["notes"])
    assert found["first_pull_request"] == []
    assert run(["init", str(spyre.folder / ".git")]) == 2


def test_the_branch_is_that_of_origin_and_a_dirty_tree_stays_as_it_is(tmp_path: Path) -> None:
    upstream = make(tmp_path / "upstream", TORCH_ACME)
    upstream.git("branch", "--quiet", "-m", "trunk")
    subprocess.run(["git", "clone", "--quiet", str(upstream.folder), str(tmp_path / "clone")], check=True)
    clone = Checkout(tmp_path / "clone")
    clone.git("checkout", "--quiet", "-b", "change")
    clone.write("pyproject.toml", TORCH_ACME["pyproject.toml"] + "# mine\n")
    found = init(clone, "--write")
    assert (found["branch"], found["device"], found["package"]) == ("trunk", "acme", "torch_acme")
    assert 'branches: ["trunk"]' in clone.read(".github/workflows/spyre-ci.yml")
    assert clone.read("pyproject.toml").endswith("# mine\n")
    clone.git("commit", "--quiet", "--all", "--message", "mine")
    # As actions/checkout leaves it: a commit, and no branch of origin that is the default.
    clone.git("checkout", "--quiet", "--detach")
    clone.git("remote", "set-head", "origin", "--delete")
    clone.git("branch", "--quiet", "-D", "change", "trunk")
    assert init(clone, "--check")["branch"] == "trunk"
    clone.git("remote", "set-head", "origin", "trunk")
    workflow = clone.read(".github/workflows/spyre-ci.yml")
    clone.write(".github/workflows/spyre-ci.yml", workflow.replace('"trunk"', '"next"'))
    told = ".github/workflows/spyre-ci.yml names the branch next, and origin's is trunk"
    assert told in init(clone, "--check")["notes"]
    (clone.folder / ".git" / "HEAD").write_text("")
    assert any("Git cannot read this repository (" in one for one in init(clone)["notes"])


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_the_first_main_job_runs_in_torch_spyres_checkout(spyre: Checkout) -> None:
    init(spyre, "--write")
    words = ("pytorch", "--percent", "0.1", "--cards", "1", "--json")
    said = spyre_ci(spyre.folder, *words, SPYRE_CI__REPORT__ENDPOINT="none")
    summary = json.loads(said)
    assert summary["verdicts"]["passed"] == sum(summary["verdicts"].values()) > 0
    # What is not compiled there is not taken for the installed back end.
    assert [one["back_end"] for one in summary["ran_in"]] == ["the emulated device"]
    assert not list(spyre.folder.rglob("*.ran"))


NOXFILE = """\
import importlib.util

import nox

spec = importlib.util.spec_from_file_location("the_noxfile", {path!r})
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)


@nox.session(venv_backend="venv")
def installs(session):
    theirs.install_back_end(session)
    session.run("python", "-m", "pip", "list")
"""


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_another_back_end_wants_what_init_wrote_and_nothing_else(tmp_path: Path) -> None:
    """Its settings have nox install it, and the main job tests it."""
    pip = [sys.executable, "-m", "pip"]
    need(subprocess.run([*pip, "--version"], check=False, capture_output=True).returncode == 0, "pip")
    acme = make(tmp_path / "torch-acme", TORCH_ACME)
    init(acme, "--write")
    (tmp_path / "noxfile.py").write_text(NOXFILE.format(path=str(ROOT / "noxfile.py")), encoding="utf-8")
    program = tmp_path / "bin" / "spyre-ci"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m ci.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    nox = [sys.executable, "-P", "-m", "nox", "-f", "../noxfile.py", "-s", "installs"]
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        nox, cwd=acme.folder, env=env, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^torch-acme +1\.0", done.stdout + done.stderr, re.MULTILINE)
    wanted = json.loads(spyre_ci(acme.folder, "config", "show", "--json"))["device.install"]["value"]
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(tmp_path / "installed"), *wanted]
    subprocess.run([*pip, "install", *words], cwd=acme.folder, check=True, timeout=240)
    path = os.pathsep.join([str(ROOT), str(tmp_path / "installed")])
    words = ["pytorch", "--percent", "0.1", "--json"]
    shown = spyre_ci(acme.folder, *words, SPYRE_CI__REPORT__ENDPOINT="none", PYTHONPATH=path)
    summary = json.loads(shown)
    assert summary["verdicts"]["passed"] == sum(summary["verdicts"].values()) > 0
    assert [one["back_end"] for one in summary["ran_in"]] == ["acme"]
