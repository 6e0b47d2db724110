"""The commit that broke a test is found in images of commits, in a real container engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import docker

from ci.bisect.executor import MARK
from tests.integration.bisect.conftest import TEST, make

ROOT = Path(__file__).parents[2]


def test_the_commit_is_found_in_containers_and_none_is_left(
    client: docker.DockerClient, op_suite_image: str, tmp_path: Path
) -> None:
    project, shop = make(tmp_path / "project", commits=3, broken=2), tmp_path / "shop"
    (shop / "ci").mkdir(parents=True)  # a package that is called as ours is
    (shop / "ci" / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    tag = "import docker, sys; docker.from_env().images.get(sys.argv[1]).tag(sys.argv[2])"
    settings = {"builder": "image", "command": [sys.executable, "-c", tag, op_suite_image, "{tag}"]}
    (shop / "spyre-ci.yaml").write_text(json.dumps({"device": {"name": "cpu"}, "bisect": settings}))
    words = ["--good", project.commits[0], "--bad", "main", "--confidence", "0.5", "--json", TEST]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ci.cli", "bisect", "--pytorch-src", str(project.folder), *words],
        cwd=shop,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPYRE_CI_HUD_TOKEN": "secret-of-the-job"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    try:
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout)["result"]["candidates"][0]["sha"] == project.commits[2]
        assert client.containers.list(all=True, filters={"label": MARK}) == []
    finally:
        for one in client.images.list("spyre-ci-bisect"):
            for name in one.tags:
                if name.rpartition(":")[2] in project.commits:
                    client.images.remove(name)
