"""A run that is made once, and a copy of it for each example."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.github_api import GitHubApi, Repository, pull
from tests.integration.conftest import need
from tests.integration.hud.conftest import Faulty, serving
from tests.integration.package.publish.servers import pypiserver
from tests.kubernetes_api import KubernetesApi
from tests.s3_server import s3_server

from .world import World, at_home, make_base, make_run


@pytest.fixture(scope="session")
def with_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world whose project has a run."""
    need(importlib.util.find_spec("torch") is not None, "torch")
    base = tmp_path_factory.mktemp("with-a-run")
    make_base(base)
    make_run(base)
    return base


@pytest.fixture
def world(
    request: pytest.FixtureRequest, tmp_path: Path, with_a_run: Path, capfd: pytest.CaptureFixture[str]
) -> Iterator[World]:
    base = tmp_path / "world"
    shutil.copytree(with_a_run, base, symlinks=True)

    def said() -> tuple[str, str]:
        read = capfd.readouterr()
        return read.out, read.err

    with pytest.MonkeyPatch.context() as patch:
        at_home(base, patch)
        yield World(base=base, patch=patch, request=request, said=said)


@pytest.fixture
def github() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository(
            pulls={7: pull(7, head="fork/r")}, branches={"main": "a" * 40}
        )
        yield server


@pytest.fixture
def relay() -> Iterator[Faulty]:
    with serving() as server:
        yield server


@pytest.fixture
def kubernetes() -> Iterator[KubernetesApi]:
    with KubernetesApi() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index with a login."""
    for name in ("pypiserver", "passlib", "twine", "pypi_simple"):
        need(importlib.util.find_spec(name) is not None, name)
    with pypiserver(tmp_path / "index") as address:
        yield address
