"""A real engine with a registry, a repository, a wheel, a prebuilt image, and an index with a small torch."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from tests.engine import build_image, engine_client, served
from tests.packages import make_wheel
from tests.repositories import commit, git

# What stands in for PyTorch: 200 MB of wheel would tell no more of how images are built.
TORCH = "__version__ = '2.13.0'\n\nclass version:\n    git_version = 'f' * 40\n"


def wheel(
    folder: Path, name: str, version: str, code: str, *, tag: str = "py3-none-any", needs: str = ""
) -> Path:
    """A wheel with one module."""
    fields = {"Requires-Dist": needs} if needs else {}
    return make_wheel(folder, name, version, files={f"{name}/__init__.py": code}, fields=fields, tag=tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a stack is made of.

    Attributes:
        client: the engine.
        registry: its address.
        folder: holds the stack file and the wheel.
        repository: a Git repository.
        index: a package index with the stand-in for torch.
        run: makes names of this test run's own.
    """

    client: docker.DockerClient
    registry: str
    folder: Path
    repository: Path
    index: str
    run: str

    def commit(self, files: dict[str, str], message: str = "change") -> str:
        """Commit files to the repository; returns the commit."""
        return commit(self.repository, files, message)

    def git(self, *words: str) -> str:
        """Run git in the repository."""
        return git(self.repository, *words)


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    with engine_client() as made:
        yield made


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    wheel(tmp_path / "index" / "torch", "torch", "2.13.0", TORCH)
    with served(tmp_path / "index") as address:
        yield address


@pytest.fixture
def world(
    client: docker.DockerClient,
    tmp_path: Path,
    index: str,
) -> Iterator[World]:
    run = secrets.token_hex(4)
    registry, base = os.environ["TEST_REGISTRY"], os.environ["TEST_BASE_IMAGE"]
    folder, repository = tmp_path / "images", tmp_path / "flex"
    wheel(folder / "packages", "senlib", "1.0", "answer = 42\n")
    repository.mkdir()
    made = World(client=client, registry=registry, folder=folder, repository=repository, index=index, run=run)
    made.commit({"flex.txt": "one\n", "check.sh": 'cp flex.txt "$DESTDIR/../seen.txt"\n'})
    prebuilt = f"{registry}/drivers-{run}:1"
    drivers = 'RUN ["/bin/sh", "-c", "mkdir /opt/drivers && echo d > /opt/drivers/driver.txt"]'
    build_image(client, prebuilt, f"FROM {base}\n{drivers}\n")
    client.images.push(prebuilt)
    (folder / "stack.yaml").write_text(f"""version: 1
name: runtime-{run}
base: {{image: "{base}", packages: [python3-venv]}}
variants: {{pinned: {{version: 2.13.0}}}}
environment: {{LANG: C.UTF-8}}
components:
  - name: flex
    needs: [drivers]
    args: {{GREETING: hello}}
    git:
      url: file://{repository}
      steps:
        - test -f /opt/drivers/driver.txt
        - mkdir -p "$DESTDIR/opt/flex"
        - cp flex.txt "$DESTDIR/opt/flex/"
        - echo "$PARAM_GREETING" > "$DESTDIR/opt/flex/greeting.txt"
  - name: senlib
    files: [packages/*.whl]
  - name: drivers
    image: {{name: "{prebuilt}", paths: [{{source: /opt/drivers}}]}}
""")
    yield made
    # Not `images.list`, which looks each one up, and others are removed at the same time.
    for image in client.api.images():
        if any(run in tag for tag in image["RepoTags"] or ()):
            with suppress(APIError):
                client.api.remove_image(image["Id"], force=True)
