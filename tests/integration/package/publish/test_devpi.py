"""From stage to production on a real devpi, whose production index takes no file twice."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from ci.package.artifacts import sha256_of
from tests.calls import free_port, wait_for_server
from tests.integration.conftest import need

from .releases import TOKEN, Checkout, wheel
from .servers import Front, fronted

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"
pytestmark = pytest.mark.nightly


@pytest.fixture
def devpi(tmp_path: Path) -> Iterator[str]:
    """The address of a devpi with root/stage, whose files can change, and root/prod, where they cannot."""
    for name in ("devpi_server", "devpi", "twine", "pypi_simple"):
        need(importlib.util.find_spec(name) is not None, name)
    folder, port, tools = tmp_path / "devpi", free_port(), Path(sys.executable).parent
    subprocess.run(
        [str(tools / "devpi-init"), "--serverdir", str(folder), "--root-passwd", TOKEN, "--no-root-pypi"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    process = subprocess.Popen(
        [tools / "devpi-server", "--serverdir", folder, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for_server(f"{address}/+api", process)

        def client(*words: str) -> None:
            subprocess.run(
                [tools / "devpi", words[0], "--clientdir", tmp_path / "client", *words[1:]],
                check=True, capture_output=True, timeout=60,
            )  # fmt: skip

        client("use", address)
        client("login", "root", f"--password={TOKEN}")
        client("index", "-c", "stage", "bases=", "volatile=True")
        client("index", "-c", "prod", "bases=", "volatile=False")
        yield address
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def before(devpi: str) -> Iterator[tuple[Front, str]]:
    with fronted(devpi) as pair:
        yield pair


@pytest.fixture
def checkout(tmp_path: Path, before: tuple[Front, str]) -> Checkout:
    def index(name: str) -> dict[str, str]:
        at = f"{before[1]}/root/{name}"
        return {"upload": f"{at}/", "simple": f"{at}/+simple/", "gate": "none", "user": "root"}

    made = Checkout(folder=tmp_path / "demo")
    made.make({"publish_timeout_s": 60, "indexes": {name: index(name) for name in ("stage", "prod")}})
    made.build()
    return made


def on(devpi: str, name: str) -> dict[str, str]:
    """Files of an index with their hashes, as devpi itself tells them."""
    request = Request(  # noqa: S310  # loopback
        f"{devpi}/root/{name}/+simple/spyre-demo/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urlopen(request, timeout=30) as answer:  # noqa: S310  # loopback
        files = json.loads(answer.read())["files"]
    return {one["filename"]: one["hashes"]["sha256"] for one in files}


def test_the_same_files_go_from_stage_to_production_and_stay(checkout: Checkout, devpi: str) -> None:
    hashes = {name: sha256_of(checkout.dist / name) for name in (WHEEL, SDIST)}
    done = checkout.publish("--json")
    assert done.code == 0, done.output
    assert done.json["installed"] == [WHEEL]
    assert on(devpi, "stage") == hashes

    words = ("package", "publish", "--index", "prod", "--json")
    token = {"SPYRE_CI_INDEX_TOKEN": TOKEN}
    done = checkout.spyre_ci(*words, environ=token)
    assert done.code == 0, done.output
    assert on(devpi, "prod") == hashes
    assert done.json["installed"] == [WHEEL]

    again = checkout.spyre_ci(*words, environ=token)
    assert again.code == 0, again.output
    assert "nothing to upload" in again.output

    wheel(checkout.dist, code="answer = 43\n")
    checkout.verify()
    changed = checkout.publish()
    assert changed.code == 1
    assert "1.0 is already published with other contents" in changed.output

    wrong = checkout.spyre_ci(
        "package", "publish", "--index", "prod", environ={"SPYRE_CI_INDEX_TOKEN": "wr0ng"}
    )
    assert wrong.code == 1  # the version is taken, whoever asks
    assert on(devpi, "prod") == hashes


def test_what_is_cut_in_the_middle_goes_on_and_an_index_that_is_down_is_told(
    checkout: Checkout, devpi: str, before: tuple[Front, str]
) -> None:
    front = before[0]
    front.down = True
    away = checkout.publish()
    assert away.code == 3
    assert "nothing was published" in away.output
    front.down, front.dies_at = False, 2
    cut = checkout.publish()
    assert cut.code == 3
    assert f"1 of 2 files is published: {WHEEL}; unknown whether published: {SDIST}" in cut.output
    assert on(devpi, "stage").keys() == {WHEEL}
    front.down = False
    again = checkout.publish("--json")
    assert again.code == 0, again.output
    assert again.json["state"] == {"uploaded": [SDIST], "there": [WHEEL], "absent": [], "unsure": []}
    assert on(devpi, "stage").keys() == {WHEEL, SDIST}


def test_a_wrong_password_publishes_nothing(checkout: Checkout) -> None:
    done = checkout.publish(SPYRE_CI_INDEX_TOKEN="wr0ng")
    assert done.code == 2
    assert f"{WHEEL} was not accepted (" in done.output
    assert "nothing was published" in done.output
