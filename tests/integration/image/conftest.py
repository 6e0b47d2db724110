"""A real engine with a registry, a repository, a wheel, a prebuilt image, and an index with a small torch."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml
from docker.errors import APIError

from ci.core.registry import find_digest
from tests.calls import Said
from tests.engine import build_image, engine_client, served
from tests.packages import make_wheel
from tests.repositories import commit, git

ROOT = Path(__file__).parent.parent.parent.parent
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
    """What a stack is made of, and calls of `spyre-ci image` as a user's.

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

    @property
    def name(self) -> str:
        """Of its images, without a tag."""
        return f"{self.registry}/spyre/runtime-{self.run}"

    @property
    def environ(self) -> dict[str, str]:
        given = {
            "SPYRE_CI__IMAGE__STACK": str(self.folder / "stack.yaml"),
            "SPYRE_CI__IMAGE__REPOSITORY": self.name,
            # The engine of tests has no network of its own.
            "SPYRE_CI__IMAGE__NETWORK": "host",
            "PIP_INDEX_URL": f"{self.index}/",
            "PIP_TRUSTED_HOST": "127.0.0.1",
        }
        return {**os.environ, "PYTHONPATH": str(ROOT), **given}

    def image(self, *words: str, code: int | None = None, **environ: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "ci.cli", "image", *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        said = Said(code=done.returncode, out=done.stdout, err=done.stderr)
        assert code in {None, said.code}, said.output
        return said

    def made(self, *words: str, **environ: str) -> dict[str, Any]:
        return self.image(*words, "--json", code=0, **environ).json

    def shown(self, *words: str) -> dict[str, Any]:
        """What would be built."""
        return self.made("build", "--print", *words)

    def digest(self, tag: str) -> str | None:
        """Of a tag in the registry."""
        return find_digest(f"{self.name}:{tag}")

    def edit(self, old: str, new: str) -> None:
        """Change the stack file."""
        path = self.folder / "stack.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def flex(self, **keys: Any) -> None:
        """Give the component `flex` keys."""
        path = self.folder / "stack.yaml"
        stack = yaml.safe_load(path.read_text())
        next(one for one in stack["components"] if one["name"] == "flex").update(keys)
        path.write_text(yaml.safe_dump(stack, sort_keys=False))

    def steps(self, *steps: str) -> None:
        """Let flex have other steps before its own."""
        stack = yaml.safe_load((self.folder / "stack.yaml").read_text())
        source = next(one for one in stack["components"] if one["name"] == "flex")["git"]
        self.flex(git={**source, "steps": [*steps, *source["steps"]]})

    def run_in(self, image: str, *words: str) -> str:
        """What a command in an image prints."""
        said = self.client.containers.run(image, list(words), remove=True, network_mode="none")
        assert isinstance(said, bytes)
        return said.decode()

    def forget(self) -> None:
        """Let the engine have no image of this run."""
        # Not `images.list`, which looks each one up, and others are removed at the same time.
        for image in self.client.api.images():
            for name in (image["RepoTags"] or []) + (image["RepoDigests"] or []):
                # By its name: an image that is made the same has other tests' names, too.
                if self.run in name:
                    with suppress(APIError):
                        self.client.api.remove_image(name, force=True)

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
def world(client: docker.DockerClient, tmp_path: Path) -> Iterator[World]:
    run = secrets.token_hex(4)
    registry, base = os.environ["TEST_REGISTRY"], os.environ["TEST_BASE_IMAGE"]
    folder, repository = tmp_path / "images", tmp_path / "flex"
    wheel(tmp_path / "index" / "torch", "torch", "2.13.0", TORCH)
    wheel(folder / "packages", "senlib", "1.0", "answer = 42\n")
    repository.mkdir()
    commit(repository, {"flex.txt": "one\n", "check.sh": 'cp flex.txt "$DESTDIR/../seen.txt"\n'})
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
    with served(tmp_path / "index") as index:
        made = World(
            client=client, registry=registry, folder=folder, repository=repository, index=index, run=run
        )
        yield made
    made.forget()
