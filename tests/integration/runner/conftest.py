from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .small_runs import Runner

# Input of the runs, as the small tree is: tests that do harm to their process.
collect_ignore = ["faults"]


@pytest.fixture
def runner(tree: Path, request: pytest.FixtureRequest) -> Runner:
    """Runs plans on the small tree, with files beside it that only the runner's own tests are to meet."""
    shutil.copytree(Path(__file__).parent / "faults", tree / "test", dirs_exist_ok=True)
    return Runner(tree, getattr(request, "param", "fork"))


class RedisServer:
    """A real Redis of the test's own, on a socket in its folder."""

    def __init__(self, folder: Path, password: str = "") -> None:
        self.socket, self._folder, self._password = folder / "redis.sock", folder, password
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        if self._password:
            words += ["--requirepass", self._password]
        self._process = subprocess.Popen(words, cwd=self._folder, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self.socket.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.socket.unlink(missing_ok=True)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    pytest.importorskip("redis", reason="the package redis is not found")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not found")
    folder = tmp_path / "redis"
    folder.mkdir()
    made = RedisServer(folder)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url
