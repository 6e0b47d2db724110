"""The workflow that `spyre-ci init` writes, executed by act: it calls the toolkit's, and its gate is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ci.cli.app import run
from tests.heavy import demo_project
from tests.heavy.act import PROJECT, TOOLKIT, make_scratch

WRITTEN = ("spyre-ci.yaml", "Jenkinsfile", ".spyre-ci-init.json")


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
