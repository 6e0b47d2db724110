"""A machine that has everything: a real engine and registry, an index, the HUD's own server and a cluster."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci.runner.compatibility import torch_pin
from tests.engine import engine_client
from tests.integration.package.publish.servers import pypiserver
from tests.kubernetes_api import KubernetesApi

from .conftest import ROOT, doctor, serving, usual

SECRETS = ("s3cret-t0ken", "hunter2")


@contextmanager
def hud(folder: Path) -> Iterator[str]:
    """The embedded server, serving."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "ci.cli", "hud", "serve", "--port", "0"],
        cwd=folder,
        env={**usual(folder), "SPYRE_CI__STATE": str(folder / "hud")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.match(r"HUD on (http://\S+)/ ", process.stdout.readline())
        assert found is not None
        yield found[1]
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.usefixtures("torch_installed")
def test_a_machine_that_has_everything_is_told_so(tmp_path: Path) -> None:
    with (
        engine_client(),
        pypiserver(tmp_path / "index") as index,
        hud(tmp_path) as server,
        KubernetesApi() as api,
    ):
        pin = torch_pin()
        (tmp_path / "index" / "packages" / f"torch-{pin}-py3-none-any.whl").touch()
        (tmp_path / "noxfile.py").write_text((ROOT / "noxfile.py").read_text())
        (tmp_path / "spyre-ci.yaml").write_text(
            f"image: {{repository: '{os.environ['TEST_REGISTRY']}/doctor'}}\ndevice: {{name: spyre}}\n"
        )
        environ = {
            **usual(tmp_path),
            "DOCKER_HOST": os.environ["DOCKER_HOST"],
            "PIP_INDEX_URL": index.replace("://", "://me:hunter2@") + "/simple/",
            "SPYRE_CI__REPORT__ENDPOINT": server,
            "SPYRE_CI_HUD_TOKEN": "s3cret-t0ken",
            "KUBECONFIG": str(api.kubeconfig(tmp_path)),
        }
        shown = doctor(tmp_path, environ=environ)
    wrong = [one for one in shown.findings if one["level"] != "ok" and one["check"] not in {"disk", "engine"}]
    assert wrong == []
    # Room is what the machine happens to have, and too little of it no fault.
    assert (shown.code, shown.faults) == (0, [])
    assert f"the pin is {pin}" in shown.of("torch")[0]["message"]
    assert shown.of("registry")[0]["message"].startswith(f"{os.environ['TEST_REGISTRY']} answers")
    assert shown.of("index")[0]["message"] == f"torch {pin} is available from {index}/simple/torch/"
    assert "jobs can be created" in shown.of("cluster")[0]["message"]
    assert shown.of("clock")[0]["message"].startswith("within ")
    everything = f"{shown.findings}{shown.err}"
    assert not any(secret in everything for secret in SECRETS)


def test_a_registry_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "spyre-ci.yaml").write_text("image: {repository: '127.0.0.1:1/nobody/here'}\n")
    shown = doctor(tmp_path, "--only", "registry", environ=usual(tmp_path))
    assert shown.faults == ["registry"]
    assert shown.of("registry")[0]["message"].startswith("127.0.0.1:1: ")


@pytest.mark.nightly
def test_whatever_hangs_all_is_over_in_time_and_nothing_is_left(tmp_path: Path) -> None:
    """Engine, index, endpoint, cluster and torch hang at once; the verb is through with all of them."""
    torch = tmp_path / "path" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("import time\ntime.sleep(600)\n")
    with serving() as site, socket.socket(socket.AF_UNIX) as engine, KubernetesApi() as api:
        site.hangs = True
        engine.bind(str(tmp_path / "s"))
        engine.listen(8)
        kubeconfig = api.kubeconfig(tmp_path)
        kubeconfig.write_text(kubeconfig.read_text().replace(api.url, site.url))
        environ = {
            **usual(tmp_path),
            "PYTHONPATH": f"{torch.parent}{os.pathsep}{ROOT}",
            "DOCKER_HOST": f"unix://{tmp_path}/s",
            "PIP_INDEX_URL": f"{site.url}/simple",
            "SPYRE_CI__REPORT__ENDPOINT": site.url,
            "KUBECONFIG": str(kubeconfig),
        }
        began = time.monotonic()
        shown = doctor(tmp_path, environ=environ)
        # What is promised, which is no measure of how fast anything is.
        assert time.monotonic() - began < 45
    assert shown.code == 2
    assert {"engine", "index", "hud", "cluster", "tokens"} <= set(shown.faults)
    assert shown.of("torch")[0]["level"] == "warning"
    left = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert str(tmp_path) not in left
