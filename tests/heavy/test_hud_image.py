"""The image of the HUD server, built and run by a real engine as its compose file says."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
import yaml
from docker.client import DockerClient
from docker.models.containers import Container

from ci.hud.payload import RunIdentity, Ways, ended_of

ROOT = Path(__file__).parent.parent.parent
HUD = ROOT / "images" / "hud"
REPOSITORY = "torch-spyre/torch-spyre"
REVISION = "0123456789abcdef0123456789abcdef01234567"
UP_S, STOP_S, TIMEOUT = 60, 20, 30
USER = "10001"


def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((HUD / "compose.yaml").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def engine() -> Iterator[DockerClient]:
    if not os.environ.get("DOCKER_HOST") or not os.environ.get("TEST_BASE_IMAGE"):
        pytest.skip(
            "a container engine (DOCKER_HOST) and a base image with apt (TEST_BASE_IMAGE) are not there"
        )
    client = docker.from_env(timeout=600)
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(engine: DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    context = tmp_path_factory.mktemp("hud-image") / "hud"
    shutil.copytree(HUD, context, ignore=shutil.ignore_patterns("wheels", "*.token"))
    # A secret that lies about in the context may not get into the image.
    (context / "hud.token").write_text("not-for-the-image")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "-w", str(context / "wheels"), str(ROOT)],
        check=True,
        timeout=600,
    )
    tag = f"spyre-ci-hud-test:{secrets.token_hex(6)}"
    engine.images.build(
        path=str(context),
        dockerfile="Containerfile",
        tag=tag,
        rm=True,
        forcerm=True,
        network_mode="host",
        buildargs={"BASE": os.environ["TEST_BASE_IMAGE"], "VERSION": "1.2.3", "REVISION": REVISION},
    )
    yield tag
    engine.images.remove(tag, force=True)


@pytest.fixture
def volume(engine: DockerClient) -> Iterator[str]:
    name = f"spyre-ci-hud-test-{secrets.token_hex(6)}"
    engine.volumes.create(name)
    yield name
    engine.volumes.get(name).remove(force=True)


class Running:
    """The container of the compose file's service, on the host's network where the engine has no other."""

    def __init__(self, engine: DockerClient, image: str, volume: str, secret: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        service = compose()["services"]["hud"]
        told = {name: value for name, value in service["environment"].items() if "${" not in value}
        self.url = f"http://127.0.0.1:{port}"
        self.container: Container = engine.containers.run(
            image,
            detach=True,
            network_mode="host",
            environment=told
            | {
                "SPYRE_CI__REPORT__REPOSITORY": REPOSITORY,
                "SPYRE_CI__STORE__CLICKHOUSE": "",  # what compose makes of a variable that is not set
                "SPYRE_CI__HUD__HOST": "127.0.0.1",
                "SPYRE_CI__HUD__PORT": str(port),
            },
            volumes={
                volume: {"bind": service["volumes"][0].partition(":")[2], "mode": "rw"},
                str(secret): {"bind": "/run/secrets/hud_token", "mode": "ro"},
            },
            read_only=service["read_only"],
            tmpfs=dict.fromkeys(service["tmpfs"], ""),
            cap_drop=service["cap_drop"],
            security_opt=service["security_opt"],
        )

    def wait(self) -> dict[str, Any]:
        """What /healthz says once it does."""
        until = time.monotonic() + UP_S
        while time.monotonic() < until:
            try:
                told: dict[str, Any] = requests.get(f"{self.url}/healthz", timeout=TIMEOUT).json()
            except requests.ConnectionError:
                self.container.reload()
                assert self.container.status in {"created", "running"}, self.container.logs().decode()
                time.sleep(0.2)
                continue
            return told
        raise AssertionError(self.container.logs().decode())

    def says(self, *command: str) -> tuple[int, str]:
        """Exit code and output of a command inside."""
        done = self.container.exec_run(list(command))
        assert isinstance(done.output, bytes)
        return int(done.exit_code or 0), done.output.decode()

    def end(self) -> int:
        """Stop it as an engine does; its exit code."""
        self.container.stop(timeout=STOP_S)
        code = int(self.container.wait(timeout=TIMEOUT)["StatusCode"])
        self.container.remove(force=True)
        return code


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "hud.token"
    path.write_text(secrets.token_urlsafe(32) + "\n")
    path.chmod(0o444)
    return path


def payload() -> dict[str, Any]:
    identity = RunIdentity(
        run_id=4242, run_attempt=1, lane="nightly-main", job_name="pytorch", workflow="Nightly",
        url="https://ci.example/runs/4242", provider="github", pytorch_version="2.13.0", pytorch_sha=REVISION,
        device="spyre", stage=1, percent=5, started_at="2026-08-01T02:00:00.000+00:00",
        completed_at="2026-08-01T02:03:05.000+00:00",
    )  # fmt: skip
    summary = {"identity": identity.model_dump(), "run": "r1", "verdicts": {"passed": 7, "failed": 2}}
    return ended_of({**summary, "exit_code": 1}, Ways(environ={}), path=Path("summary.json"))


def test_the_image_is_labelled_and_runs_as_nobody_special(engine: DockerClient, image: str) -> None:
    told = engine.images.get(image).attrs["Config"]
    assert told["Labels"]["org.opencontainers.image.version"] == "1.2.3"
    assert told["Labels"]["org.opencontainers.image.revision"] == REVISION
    assert told["User"].partition(":")[0] == USER
    assert list(told["Volumes"]) == ["/data"]
    assert "/healthz" in " ".join(told["Healthcheck"]["Test"])


def test_no_secret_no_installer_and_no_torch_is_in_the_image(engine: DockerClient, image: str) -> None:
    script = (
        "import importlib.util as u, pathlib as p, sys; "
        "sys.exit(any(u.find_spec(n) for n in ('torch', 'pip')) or any(p.Path('/').glob('*/hud.token')))"
    )
    engine.containers.run(
        image, ["-c", script], entrypoint="/opt/hud/bin/python", network_mode="host", remove=True
    )
    written = "".join(str(layer.get("CreatedBy")) for layer in engine.images.get(image).history())
    assert "not-for-the-image" not in written


def test_a_report_outlives_the_container_that_took_it(
    engine: DockerClient, image: str, volume: str, secret: Path
) -> None:
    first = Running(engine, image, volume, secret)
    try:
        assert first.wait()["runs"] == 0
        url, bearer = (
            f"{first.url}/github/callback",
            {"Authorization": f"Bearer {secret.read_text().strip()}"},
        )
        assert requests.post(url, json=payload(), timeout=TIMEOUT).status_code == 401
        assert requests.post(url, json=payload(), headers=bearer, timeout=TIMEOUT).status_code == 200
        assert first.says("id", "-u") == (0, f"{USER}\n")
        assert first.says("sh", "-c", "touch /etc/x")[0] != 0
        assert "NoNewPrivs:\t1" in first.says("cat", "/proc/self/status")[1]
        copy = "import sqlite3; sqlite3.connect('/data/store.sqlite').execute(\"VACUUM INTO '/data/copy'\")"
        assert first.says("python3", "-c", copy)[0] == 0
        # The engine asks the same of the image, every so often.
        check = engine.images.get(image).attrs["Config"]["Healthcheck"]["Test"]
        assert first.says(*check[1:])[0] == 0
        assert secret.read_text().strip() not in first.container.logs().decode()
    finally:
        code = first.end()
    assert code in {0, 143}
    second = Running(engine, image, volume, secret)
    try:
        assert second.wait()["runs"] == 1
        (row,) = requests.get(f"{second.url}/api/runs", timeout=TIMEOUT).json()["runs"]
        assert (row["run_id"], row["passed_tests"], row["failed_tests"]) == ("4242", 7, 2)
    finally:
        second.end()
