"""Every step of a release on one commit, to a real index whose gate wants them all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ci.package.environment import make

from .conftest import PYPROJECT, Checkout
from .publish.conftest import settings_for
from .publish.releases import TOKEN
from .publish.servers import pypiserver

pytestmark = pytest.mark.nightly


def test_a_commit_goes_from_its_checkout_to_the_index_and_runs_from_there(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI_INDEX_TOKEN", TOKEN)
    # In a CI a token goes to no server of this machine that a settings file names.
    for name in ("CI", "GITHUB_ACTIONS", "JENKINS_URL"):
        monkeypatch.delenv(name, raising=False)
    with pypiserver(tmp_path / "index") as address:
        settings = {"package": settings_for(address, gate="merge")}
        test = "import demo\n\n\ndef test_it_is_there() -> None:\n    assert demo.main is not None\n"
        checkout.commit({"spyre-ci.yaml": json.dumps(settings), "tests/unit/test_demo.py": test})
        commit = checkout.git("rev-parse", "HEAD").strip()
        assert checkout.package("publish", "--index", "stage").code == 2
        for verb in ("lint", "unit", "build", "verify"):
            words = ["--index", "stage"] if verb in {"build", "verify"} else []
            said = checkout.package(verb, *words)
            assert said.code == 0, said.out + said.err
        said = checkout.package("publish", "--index", "stage")
        assert said.code == 0, said.err
        assert checkout.package("release", "--index", "stage").code == 0
        noted = json.loads((checkout.folder / ".spyre-ci/records/published-stage.json").read_text())
        assert noted["commit"] == commit
        version = noted["version"]
        environment = make(tmp_path / "env", {"PATH": "/usr/bin:/bin"})
        environment.install(["--index-url", f"{address}/simple/", f"demo=={version}"])
        run = subprocess.run(
            [environment.folder / "bin" / "demo"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (run.returncode, run.stdout) == (0, "demo\n")
    # Another commit has to go the whole way itself.
    checkout.commit({"pyproject.toml": PYPROJECT + "\n"})
    assert checkout.package("build", "--index", "stage", "--keep-env").code == 0
    said = checkout.package("release", "--index", "stage")
    assert said.code == 1
    assert f"lint: is of {commit[:12]}" in said.err
