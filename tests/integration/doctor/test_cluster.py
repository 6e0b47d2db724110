"""A cluster that answers, does not know us, refuses, is away, or whose login program hangs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ci.doctor import cluster
from ci.doctor.finding import Finding, Level
from tests.kubernetes_api import TOKEN, KubernetesApi

from .conftest import MakeWorld


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


def looked(world: MakeWorld, kubeconfig: Path) -> Finding:
    (found,) = cluster.look_cluster(world({"KUBECONFIG": str(kubeconfig)}))
    assert TOKEN not in f"{found.said}{found.remedy}"
    return found


def test_what_one_may_not_do_is_named(world: MakeWorld, api: KubernetesApi, tmp_path: Path) -> None:
    api.denied |= {("create", "jobs"), ("get", "pods/log"), ("delete", "services")}
    found = looked(world, api.kubeconfig(tmp_path))
    assert (found.level, found.said) == (
        Level.FAULT,
        "of KUBECONFIG: v1.33.2, namespace cards; here one may not create jobs, get pods/log",
    )


@pytest.mark.nightly
def test_a_token_that_is_not_known_is_told(world: MakeWorld, api: KubernetesApi, tmp_path: Path) -> None:
    found = looked(world, api.kubeconfig(tmp_path, token="0ld-t0ken"))
    assert (found.level, "oc login" in found.remedy) == (Level.FAULT, True)
    assert "0ld" not in f"{found.said}{found.remedy}"


@pytest.mark.nightly
def test_a_kubeconfig_that_is_broken_is_told(world: MakeWorld, tmp_path: Path) -> None:
    (tmp_path / "k").write_text("{")
    found = looked(world, tmp_path / "k")
    assert (found.level, str(tmp_path / "k") in found.said) == (Level.FAULT, True)


@pytest.mark.nightly
def test_a_cluster_that_is_away_is_told(world: MakeWorld, api: KubernetesApi, tmp_path: Path) -> None:
    """It is tried again for some seconds, and not for the minute and a half that a submit takes."""
    kubeconfig = api.kubeconfig(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        kubeconfig.write_text(kubeconfig.read_text().replace(api.host, f"127.0.0.1:{taken.getsockname()[1]}"))
        found = looked(world, kubeconfig)
    assert (found.level, "does not answer to GET /version" in found.said) == (Level.FAULT, True)


def test_a_login_program_that_hangs_is_ended_with_all_it_started(
    world: MakeWorld, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig, pipe = api.kubeconfig(tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    content = yaml.safe_load(kubeconfig.read_text())
    # Both hold the pipe open for as long as they live.
    script = f"exec 9>{pipe}; echo begun >&9; sleep 600 & wait"
    content["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "interactiveMode": "Never",
        }
    }
    kubeconfig.write_text(yaml.safe_dump(content))
    try:
        os.set_blocking(reading, True)
        # A busy machine may take longer to begin the program than a limit that keeps nobody waiting.
        for limit_s in (2.0, 8.0, 60.0):
            monkeypatch.setattr(cluster, "LIMIT_S", limit_s)
            found = looked(world, kubeconfig)
            assert (found.level, found.said) == (
                Level.FAULT,
                "of KUBECONFIG: does not answer: took longer than its time",
            )
            if begun := os.read(reading, 100):
                break
        assert begun == b"begun\n"
        # The end of the file comes when nobody has it open any more.
        assert os.read(reading, 100) == b""
    finally:
        os.close(reading)
