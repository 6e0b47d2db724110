"""The ledger of images with a real Python and pip: each shape that an installation has."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from tests.engine import build_image
from tests.integration.pins.calling import Ledger
from tests.integration.pins.images import Repository
from tests.packages import make_wheel

# Debian's packages are fetched and unpacked, which takes most of a minute.
pytestmark = pytest.mark.nightly
INSTALL = "RUN apt-get update && apt-get install -y --no-install-recommends python3-venv"
VENV = """\
COPY . /wheels
RUN python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/bin:/bin
ENTRYPOINT ["/bin/false"]
"""
PIP = "/opt/venv/bin/pip install --no-index --disable-pip-version-check"


@pytest.fixture(scope="module")
def python(client: docker.DockerClient) -> Iterator[str]:
    """An image with Debian's Python and pip for environments."""
    name = f"pins-python-{secrets.token_hex(4)}:1"
    build_image(client, name, f"FROM {os.environ['TEST_BASE_IMAGE']}\n{INSTALL}\n")
    yield name
    with suppress(APIError):
        client.api.remove_image(name, force=True)


def wheels(folder: Path, torch: str, run: str) -> dict[str, str | bytes]:
    made = [
        make_wheel(folder, "torch", torch, files={"torch/__init__.py": run}),
        make_wheel(folder, "transformers", "4.50.0", fields={"Requires-Dist": "torch"}),
        make_wheel(folder, "accelerate", "1.2.0"),
    ]
    return {path.name: path.read_bytes() for path in made}


def test_packages_of_an_image_are_recorded_however_they_were_installed(
    tmp_path: Path, repository: Repository, python: str
) -> None:
    setup = "from setuptools import setup; setup(name='ours', version='0.7', py_modules=['ours'])"
    steps = f"""{VENV}RUN {PIP} -f /wheels torch transformers
RUN {PIP} /wheels/accelerate-1.2.0-py3-none-any.whl
RUN mkdir /src && echo "{setup}" > /src/setup.py && touch /src/ours.py && {PIP} -e /src
"""
    old = wheels(tmp_path / "old", "2.12.0+cpu", "def compile(model, mode=None): ...\n")
    new = wheels(tmp_path / "new", "2.13.0", "def compile(model, *, mode=None): ...\n")
    repository.push("1.0", steps, old, base=python)
    repository.push("1.1", steps, new, base=python)
    folder = tmp_path / "checkout"
    folder.mkdir()
    direct = ["torch", "transformers", "accelerate", "flash-attn"]
    ledger = Ledger(
        folder=folder,
        track={"image": repository.address, "direct": direct, "entry_points": ["torch:compile"]},
    )
    said = ledger("record")
    assert said.code == 0, said.err
    first, second = ledger.records
    assert (first.version, first.read_by) == ("1.0", "pip freeze")
    assert first.direct == {
        "torch": "2.12.0+cpu", "transformers": "4.50.0", "accelerate": "1.2.0", "flash-attn": None
    }  # fmt: skip
    assert first.packages["ours"] == "0.7"
    assert {"pip", "setuptools"} <= first.packages.keys()
    assert first.origins["ours"] == "editable /src"
    assert first.origins["accelerate"].startswith("file:///wheels/accelerate-1.2.0-py3-none-any.whl")
    assert [(one.name, one.before, one.after) for one in second.changes] == [
        ("torch", "2.12.0+cpu", "2.13.0")
    ]
    told = ledger("diff", "demo", "1.0", "1.1").out
    assert "direct:\n  torch 2.12.0+cpu -> 2.13.0\n" in told
    assert "mode is keyword-only now (breaks callers)" in told
    assert repository.remains() == []


def test_an_environment_without_pip_is_not_taken_for_the_python_beside_it(
    tmp_path: Path, repository: Repository, python: str
) -> None:
    # As uv makes them: the pip on the path is another Python's.
    steps = f"""{VENV}RUN {PIP} -f /wheels torch && /opt/venv/bin/pip uninstall -qy pip setuptools && \\
    rm /opt/venv/bin/pip* || true
RUN printf '#!/bin/sh\\necho wrong==1.0\\n' > /usr/bin/pip && chmod +x /usr/bin/pip
"""
    repository.push("1.0", steps, wheels(tmp_path / "wheels", "2.13.0", ""), base=python)
    folder = tmp_path / "checkout"
    folder.mkdir()
    ledger = Ledger(folder=folder, track={"image": repository.address, "direct": ["torch"]})
    assert ledger("record").code == 0
    assert ledger.records[0].read_by == "importlib.metadata"
    assert ledger.records[0].packages == {"torch": "2.13.0"}
