"""What tests of images stand on: a real container engine, and a package index of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest

ENGINE = ("DOCKER_HOST", "TEST_REGISTRY", "TEST_BASE_IMAGE")


@contextmanager
def engine_client() -> Iterator[docker.DockerClient]:
    """The engine that the environment names; where there is none, the test skips and says so."""
    missing = [name for name in ENGINE if not os.environ.get(name)]
    if missing:
        pytest.skip(f"a container engine with a registry is not there ({', '.join(missing)})")
    with closing(docker.from_env(timeout=600)) as made:
        yield made


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder as a package index on loopback while the block runs; gives its address, without a slash."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
