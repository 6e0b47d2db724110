"""A cluster that refuses, does not know us, is away, or whose login program hangs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ci.doctor import services
from ci.doctor.finding import Finding
from tests.kubernetes_api import TOKEN, KubernetesApi

from .conftest import MakeMachine


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


def checked(machine: MakeMachine, kubeconfig: Path) -> Finding:
    (found,) = services.check_cluster(machine({"KUBECONFIG": str(kubeconfig)}))
    assert TOKEN not in f"{found.message}{found.remedy}"
    assert str(found.level) == "fault"
    return found


def test_rights_that_are_missing_are_named(machine: MakeMachine, api: KubernetesApi, tmp_path: Path) -> None:
    api.denied |= {("create", "jobs"), ("get", "pods/log"), ("delete", "services")}
    found = checked(machine, api.kubeconfig(tmp_path))
    rights = "this user may not create jobs, get pods/log"
    assert found.message == f"KUBECONFIG: v1.33.2, namespace cards; {rights}"


@pytest.mark.nightly
@pytest.mark.parametrize("trouble", ["an old token", "a broken file", "away"])
def test_what_keeps_it_from_answering_is_told(
    machine: MakeMachine, api: KubernetesApi, tmp_path: Path, trouble: str
) -> None:
    kubeconfig = api.kubeconfig(tmp_path, token="0ld-t0ken" if trouble == "an old token" else TOKEN)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if trouble == "away":
            there = f"127.0.0.1:{taken.getsockname()[1]}"
            kubeconfig.write_text(kubeconfig.read_text().replace(api.host, there))
        elif trouble == "a broken file":
            kubeconfig.write_text("{")
        found = checked(machine, kubeconfig)
    words = {
        "an old token": "oc login",
        "a broken file": str(kubeconfig),
        "away": "does not answer GET /version",
    }
    assert words[trouble] in f"{found.message}{found.remedy}"
    assert "0ld" not in f"{found.message}{found.remedy}"


@pytest.mark.nightly
def test_a_login_program_that_hangs_is_ended_with_all_it_started(
    machine: MakeMachine, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig, pipe = api.kubeconfig(tmp_path), tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    content = yaml.safe_load(kubeconfig.read_text())
    # Both hold the pipe open for as long as they live.
    script = f"exec 9>{pipe}; echo started >&9; sleep 600 & wait"
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
        # A busy machine may take longer to start the program than a limit that keeps nobody waiting.
        for limit_s in (2.0, 8.0, 60.0):
            monkeypatch.setattr(services, "CLUSTER_S", limit_s)
            assert checked(machine, kubeconfig).message.startswith("KUBECONFIG: no answer within")
            if started := os.read(reading, 100):
                break
        assert started == b"started\n"
        # The end of the file comes when nobody has it open any more.
        assert os.read(reading, 100) == b""
    finally:
        os.close(reading)
