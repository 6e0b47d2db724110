"""What a build is given in confidence is in nothing that it leaves, and no step of a component's finds it."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import threading
from pathlib import Path

import docker
import pytest
import requests

from tests.calls import Said

from .conftest import World

pytestmark = pytest.mark.nightly

SECRET = "hunter2-of-the-index"


def with_login(world: World, *words: str, code: int = 0, **environ: str) -> Said:
    address = world.index.replace("http://", f"http://robot:{SECRET}@")
    return world.image("build", *words, code=code, PIP_INDEX_URL=f"{address}/", **environ)


def told_by(client: docker.DockerClient, name: str) -> bytes:
    """All that an image holds: layers, history, labels."""
    image = client.images.get(name)
    parts = [json.dumps([image.attrs, image.history()]).encode()]
    with tarfile.open(fileobj=io.BytesIO(b"".join(image.save()))) as outer:
        parts += [file.read() for member in outer if (file := outer.extractfile(member)) is not None]
    return b"\0".join(parts)


def exported_cache(name: str) -> bytes:
    """What an image in the registry carries of the builder's cache, for others to take from."""
    registry, _, path = name.partition("/")
    repository, _, tag = path.rpartition(":")
    url = f"http://{registry}/v2/{repository}"
    accept = {"Accept": "application/vnd.docker.distribution.manifest.v2+json"}
    manifest = requests.get(f"{url}/manifests/{tag}", headers=accept, timeout=30).json()
    config = requests.get(f"{url}/blobs/{manifest['config']['digest']}", timeout=30).json()
    return base64.b64decode(config["moby.buildkit.cache.v0"])


class Watch(threading.Thread):
    """Looks at the words of all processes until it is told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.end, self.seen, self.looked = threading.Event(), set[str](), 0

    def run(self) -> None:
        while not self.end.wait(0.02):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                except OSError:
                    continue
                self.looked += b"buildx" in words
                if SECRET.encode() in words:
                    self.seen.add(words.decode())


def test_a_secret_is_in_no_layer_history_label_log_cache_or_process_list(world: World) -> None:
    watch = Watch()
    watch.start()
    try:
        latest = f"{world.name}:latest"
        said = with_login(world, "--push", "--json", SPYRE_CI__IMAGE__CACHE=latest)
    finally:
        watch.end.set()
        watch.join()
    image = said.json["image"]
    held, cache = told_by(world.client, image), exported_cache(image)
    assert watch.looked, "the build was among the processes"
    assert b"driver.txt" in held
    assert b"layers" in cache
    found = {
        "layers, history, labels": held.count(SECRET.encode()),
        "log": said.output.count(SECRET),
        "cache export": cache.count(SECRET.encode()),
        "process list": len(watch.seen),
    }
    assert found == dict.fromkeys(found, 0)


@pytest.mark.parametrize(
    # The step's own words do not hold the secret, which another test looks for among all processes.
    "step",
    ["cat /run/secrets/pip", f"env | grep '{SECRET[:-1]}[{SECRET[-1]}]'", 'test -n "$PIP_CONFIG_FILE"'],
)
def test_a_components_own_step_that_tries_to_read_it_fails(world: World, step: str) -> None:
    world.steps(step)
    said = with_login(world, code=1)
    assert "a step ended with code" in said.output


def test_a_components_own_step_is_told_the_index_without_its_credentials(world: World) -> None:
    world.steps(
        f'test "$PIP_INDEX_URL" = {world.index}/',
        "mkdir -p $DESTDIR/opt/seen; env > $DESTDIR/opt/seen/env",
    )
    image = with_login(world, "--json").json["image"]
    assert SECRET.encode() not in told_by(world.client, image)
