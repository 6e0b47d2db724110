"""What tests of images stand on: a real container engine, and a package index of their own."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping
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
        pytest.skip(f"a container engine with a registry is not found ({', '.join(missing)})")
    with closing(docker.from_env(timeout=600)) as made:
        yield made


def build_image(
    client: docker.DockerClient, name: str, text: str, files: Mapping[str, str | bytes] | None = None
) -> None:
    """Build an image of a Containerfile and the files beside it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, content in {"Containerfile": text, **(files or {})}.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    stream.seek(0)
    client.images.build(
        fileobj=stream,
        custom_context=True,
        dockerfile="Containerfile",
        tag=name,
        network_mode="host",
        rm=True,
    )


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
