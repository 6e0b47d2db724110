"""The runtime image: rendered, built, tested before it is pushed, found again, verified, and without secrets.

One image is built and pushed; most tests look at it. All of it needs a container engine with a registry.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
import yaml
from docker.errors import APIError

from tests.conftest import Golden
from tests.engine import build_image, engine_client, served
from tests.oracle.conftest import Desk, Said, make_desk
from tests.packages import make_wheel
from tests.repositories import git

SECRET, CERTIFICATE = "hunter2-of-the-index", "COMPANYCERTIFICATE"
# What stands in for PyTorch: 200 MB of wheel would tell no more of how images are built.
TORCH = "__version__ = '2.13.0'\n\nclass version:\n    git_version = 'f' * 40\n"
GOOD = '<testsuite><testcase classname="flex" name="works" time="0.1"/></testsuite>'
BAD = (
    '<testsuite><testcase classname="flex" name="works"/>'
    '<testcase classname="flex" name="adds"><failure message="2 is not 3">where</failure></testcase>'
    "</testsuite>"
)
SOURCES = {"flex.txt": "one\n", "good.xml": GOOD, "bad.xml": BAD}
TEST = (
    'test "$PARAM_GREETING" = hello; test -f "$DESTDIR/opt/flex/flex.txt"; cp good.xml "$JUNIT_DIR/unit.xml"'
)
STACK = """\
version: 1
name: runtime
base: {image: "%(base)s", packages: [python3-venv]}
variants: {pinned: {version: 2.13.0}}
environment: {LANG: C.UTF-8}
components:
  - name: flex
    needs: [drivers]
    args: {GREETING: hello}
    git:
      url: file://%(repository)s
      steps:
        - test -f /opt/drivers/driver.txt
        - mkdir -p "$DESTDIR/opt/flex"
        - cp flex.txt "$DESTDIR/opt/flex/"
        - echo "$PARAM_GREETING" > "$DESTDIR/opt/flex/greeting.txt"
    test: ['%(test)s']
  - name: senlib
    files: [packages/*.whl]
  - name: drivers
    image: {name: "%(drivers)s", paths: [{source: /opt/drivers}]}
"""


@dataclass(frozen=True, kw_only=True)
class World:
    """What a stack is made of: an engine, a registry, sources of a component, and a package index."""

    desk: Desk
    client: docker.DockerClient
    registry: str
    repository: Path
    index: str
    run: str

    @property
    def name(self) -> str:
        """The image's name, without a tag."""
        return f"{self.registry}/spyre/runtime-{self.run}"

    def image(self, *words: str, code: int = 0, **environ: str) -> Said:
        return self.desk.call("image", *words, code=code, **environ)

    def made(self, *words: str) -> dict[str, Any]:
        told: dict[str, Any] = self.image(*words, "--json").json
        return told

    def commit(self, files: dict[str, str]) -> str:
        for name, text in files.items():
            (self.repository / name).write_text(text)
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--message", "change")
        return git(self.repository, "rev-parse", "HEAD")

    def pushed(self, tag: str) -> str | None:
        """The digest of a tag, as the registry itself has it."""
        path = f"http://{self.registry}/v2/spyre/runtime-{self.run}/manifests/{tag}"
        accept = (
            "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"
        )
        answer = requests.get(path, headers={"Accept": accept}, timeout=30)
        return answer.headers.get("Docker-Content-Digest") if answer.ok else None

    def said_in(self, image: str, *words: str) -> str:
        said = self.client.containers.run(
            image, list(words), remove=True, read_only=True, network_mode="none"
        )
        assert isinstance(said, bytes)
        return said.decode()


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with engine_client() as made:
        yield made


@pytest.fixture(scope="module")
def world(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    base, run = tmp_path_factory.mktemp("image"), secrets.token_hex(4)
    registry, lowest = os.environ["TEST_REGISTRY"], os.environ["TEST_BASE_IMAGE"]
    repository, drivers = base / "flex", f"{registry}/drivers-{run}:1"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    made_of = 'RUN ["/bin/sh", "-c", "mkdir /opt/drivers && echo d > /opt/drivers/driver.txt"]'
    build_image(client, drivers, f"FROM {lowest}\n{made_of}\n")
    client.images.push(drivers)
    make_wheel(base / "index" / "torch", "torch", "2.13.0", files={"torch/__init__.py": TORCH})
    image = {"stack": "stack.yaml", "repository": f"{registry}/spyre/runtime-{run}", "network": "host"}
    settings = {"image": image}
    desk = make_desk(base, yaml.safe_dump(settings))
    make_wheel(desk.folder / "packages", "senlib", "1.0", files={"senlib/__init__.py": "answer = 42\n"})
    names = {"base": lowest, "repository": repository, "drivers": drivers, "test": TEST}
    desk.write("stack.yaml", STACK % names)
    with served(base / "index") as index:
        desk.environ.update(PIP_INDEX_URL=f"{index}/", PIP_TRUSTED_HOST="127.0.0.1")
        desk.environ.pop("PIP_FIND_LINKS", None)
        made = World(desk=desk, client=client, registry=registry, repository=repository, index=index, run=run)
        made.commit(SOURCES)
        yield made
    for image in client.api.images():
        if any(run in tag for tag in image["RepoTags"] or ()):
            with suppress(APIError):
                client.api.remove_image(image["Id"], force=True)


@dataclass(frozen=True, kw_only=True)
class Built:
    """The image of the stack, and what its build said."""

    told: dict[str, Any]
    said: Said
    commit: str

    @property
    def image(self) -> str:
        return str(self.told["image"])


@pytest.fixture(scope="module")
def built(world: World) -> Built:
    """Built with a login for its index and a company's certificate, and pushed."""
    marked = f"-----BEGIN CERTIFICATE-----\n{CERTIFICATE}\n-----END CERTIFICATE-----\n"
    company = world.desk.write("../company.pem", marked)
    address = world.index.replace("http://", f"http://robot:{SECRET}@")
    words = ("--push", "--tag", "latest", "--results", "results", "--sbom", "sbom.json", "--json")
    environ = {"PIP_INDEX_URL": f"{address}/", "SPYRE_CI__IMAGE__CERTIFICATES": str(company.resolve())}
    commit = git(world.repository, "rev-parse", "HEAD")
    said = world.desk.call("image", "build", *words, code=0, **environ)
    return Built(told=said.json, said=said, commit=commit)


@pytest.mark.gate
def test_the_containerfile_names_every_part_exactly(world: World, golden: Golden) -> None:
    shown = world.image("build", "--print").out
    assert world.image("build", "--print").out == shown, "the same stack is the same file"
    # How a step is run is no part of it; which are, and in what order, is.
    steps = yaml.safe_load((world.desk.folder / "stack.yaml").read_text())["components"][0]["git"]["steps"]
    places = [shown.index(json.dumps(step)[1:-1]) for step in steps]
    assert places == sorted(places)
    parts = [line for line in shown.splitlines() if line and not line.startswith(("#", "ARG", "RUN"))]
    text = "\n".join(parts) + "\n"
    lowest = os.environ["TEST_BASE_IMAGE"].rpartition(":")[0]
    hidden = {
        git(world.repository, "rev-parse", "HEAD"): "COMMIT",
        os.environ["TEST_BASE_IMAGE"]: "BASE:TAG",
        lowest: "BASE",
        world.registry: "REGISTRY",
        world.run: "RUN",
    }
    for real, word in hidden.items():
        text = text.replace(real, word)
    golden("oracle/image/Containerfile", re.sub(r"sha256:[0-9a-f]{64}", "sha256:DIGEST", text))


@pytest.mark.nightly
def test_it_is_tested_inside_before_it_is_pushed(world: World, built: Built) -> None:
    err = built.said.err
    assert err.index("flex (build): 1 passed, 0 failed") < err.index("pushed")
    assert (world.desk.folder / "results/flex/build/junit/unit.xml").read_text() == GOOD
    tag = built.image.rpartition(":")[2]
    assert built.image == f"{world.name}:{tag}"
    assert world.pushed(tag) == world.pushed("latest") == built.told["digest"]
    assert built.told["found"] is False


@pytest.mark.nightly
def test_every_component_is_in_it(world: World, built: Built) -> None:
    names = [f"/opt/{one}" for one in ("flex/flex.txt", "flex/greeting.txt", "drivers/driver.txt")]
    script = (
        "import os, senlib, torch; print(os.getuid() != 0, senlib.answer, torch.__version__, "
        f"*(open(one).read().strip() for one in {names}))"
    )
    said = world.said_in(built.image, "python", "-c", script)
    assert said.split() == ["True", "42", "2.13.0", "one", "hello", "d"]
    labels = world.client.images.get(built.image).labels
    assert built.commit in labels.values()


@pytest.mark.nightly
def test_the_second_build_finds_it_in_the_registry_and_tests_nothing_again(
    world: World, built: Built
) -> None:
    said = world.image("build", "--push", "--json")
    assert {**said.json, "found": False} == built.told
    assert said.json["found"] is True
    assert "flex (build)" not in said.err


@pytest.mark.nightly
def test_verify_passes_it_and_names_what_is_wrong_with_another(world: World, built: Built) -> None:
    assert world.image("test", built.image).code == 0
    name = f"{world.registry}/derived-{world.run}:1"
    harm = 'USER root\nRUN ["/bin/sh", "-c", "cp /bin/cat /opt/cat && chmod 4755 /opt/cat"]'
    build_image(world.client, name, f"FROM {built.image}\n{harm}\n")
    said = world.image("test", name, code=1)
    failed = [line for line in said.err.splitlines() if line.startswith("FAIL")]
    assert any("user" in line for line in failed)
    assert any("setuid" in line for line in failed)


@pytest.mark.nightly
def test_its_sbom_names_every_part(world: World, built: Built) -> None:
    told = world.desk.read("sbom.json")
    assert told["bomFormat"] == "CycloneDX"
    parts = {one["name"]: one for one in told["components"]}
    assert parts["torch"]["purl"] == "pkg:pypi/torch@2.13.0"
    assert built.commit in json.dumps(parts["flex"])
    wheel = next((world.desk.folder / "packages").iterdir())
    assert "senlib" in parts
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in json.dumps(told)


@pytest.mark.nightly
def test_no_secret_is_in_a_layer_the_history_a_log_or_a_file(world: World, built: Built) -> None:
    found = world.client.images.get(built.image)
    held = [json.dumps(found.attrs).encode(), json.dumps(found.history()).encode()]
    with tarfile.open(fileobj=io.BytesIO(b"".join(found.save()))) as outer:
        held += [file.read() for member in outer if (file := outer.extractfile(member)) is not None]
    image = b"\0".join(held)
    beside = [path.read_bytes() for path in world.desk.folder.rglob("*") if path.is_file()]
    beside += [built.said.out.encode(), built.said.err.encode()]
    # The search finds what is there.
    assert b"drivers/driver.txt" in image
    assert any(b"/opt/flex" in one for one in beside)
    for hidden in (SECRET, "robot:", CERTIFICATE):
        assert not any(hidden.encode() in one for one in (image, *beside)), hidden
    assert world.index.removeprefix("http://").encode() not in image


@pytest.mark.nightly
def test_a_pull_request_brings_its_own_component_and_never_a_file_of_this_machine(
    world: World, built: Built
) -> None:
    git(world.repository, "checkout", "--quiet", "-b", "feature", built.commit)
    commit = world.commit({"flex.txt": "feature\n"})
    git(world.repository, "checkout", "--quiet", "main")
    override = f"flex=git+file://{world.repository}@{commit}"
    other = world.made("build", "--with", override)
    assert other["image"] != built.image
    assert world.said_in(other["image"], "cat", "/opt/flex/flex.txt") == "feature\n"
    assert world.pushed(other["image"].rpartition(":")[2]) is None, "nobody asked for it to be pushed"
    text = world.desk.write("pull-request.md", "no such lines\n")
    shown = world.made("build", "--print", "--test-with", str(text))
    assert built.image.endswith(f":{shown['tag']}")
    for line in (override, "flex=/etc", f"flex={world.repository}"):
        text.write_text(f"Mends it.\n\nTest-With: {line}\n")
        assert "Test-With" in world.image("build", "--test-with", str(text), code=2).err
    text.write_text(f"Mends it.\n\nTest-With: flex=git+https://127.0.0.1:9/o/flex@{commit}\n")
    shown = world.made("build", "--print", "--test-with", str(text))
    assert shown["components"]["flex"] == commit


@pytest.mark.nightly
def test_an_image_whose_test_fails_is_not_pushed(world: World, built: Built) -> None:
    path = world.desk.folder / "stack.yaml"
    text = path.read_text()
    path.write_text(text.replace("cp good.xml", "cp bad.xml").replace('unit.xml"', 'unit.xml"; exit 1'))
    try:
        shown = world.made("build", "--print")
        said = world.image("build", "--push", "--tag", "latest", "--results", "bad", code=1)
    finally:
        path.write_text(text)
    assert "2 is not 3" in said.err
    assert world.pushed(shown["tag"]) is None
    assert world.pushed("latest") == built.told["digest"]


@pytest.mark.nightly
def test_a_release_that_is_not_the_image_that_was_tested_is_refused(world: World, built: Built) -> None:
    tested = f"{built.image}@{built.told['digest']}"
    world.image("build", "--push", "--version", "2.0.0", "--expect", tested)
    assert world.pushed("2.0.0") == world.pushed("2.0") == built.told["digest"]
    other = f"{built.image}@sha256:{'0' * 64}"
    world.image("build", "--push", "--version", "2.0.1", "--expect", other, code=1)
    assert world.pushed("2.0.1") is None
