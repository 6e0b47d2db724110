"""`spyre-ci image build --push` against a real engine and a real registry."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ci.core import progress
from ci.image.builder import ImageBuilder, Order

from .conftest import World


@pytest.mark.nightly
def test_a_version_never_moves_and_others_only_forwards(world: World) -> None:
    def at(*tags: str) -> list[str | None]:
        return [world.digest(tag) for tag in tags]

    def release(version: str) -> str:
        return str(world.made("build", "--push", "--version", version, "--tag", "latest")["digest"])

    first = release("1.2.3")
    assert at("1.2.3", "1.2", "1", "latest") == [first] * 4
    assert release("1.2.3") == first
    world.commit({"flex.txt": "two\n"})
    refused = world.image("build", "--push", "--version", "1.2.3", code=2)
    assert "1.2.3 already exists" in refused.output
    second = release("1.3.0")
    assert at("1.2.3", "1.2", "1.3", "1", "latest") == [first, first, second, second, second]
    world.commit({"flex.txt": "back-port\n"})
    third = release("1.2.4")
    assert at("1.2.4", "1.2", "1.3", "1", "latest") == [third, third, second, second, second]
    world.commit({"flex.txt": "candidate\n"})
    fourth = release("2.0.0rc1")
    assert at("2.0.0rc1", "2.0", "2", "1", "latest") == [fourth, None, None, second, second]


WHEELS, REPOSITORY = "files: [packages/*.whl]", "SPYRE_CI__IMAGE__REPOSITORY"
TWO_SOURCES = {WHEELS: f"{WHEELS}\n    git: {{url: https://x/y, steps: [a]}}"}
S390X = {
    WHEELS: f"{WHEELS}\n    platforms: [linux/amd64]",
    "components:": "platforms: [linux/amd64, linux/s390x]\ncomponents:",
}


@pytest.mark.parametrize(
    ("words", "environ", "edits", "said"),
    [
        (["--with", "flex=git+file:///nowhere@main"], {}, {}, "check that file:///nowhere can be reached"),
        (["--with", "flex=git+file://REPOSITORY@nothing"], {}, {}, "has no branch or tag 'nothing'"),
        (["--with", "flex=nowhere"], {}, {}, "there is no such folder"),
        (
            ["--with", "flex=REPOSITORY", "--push", "--version", "1.2.3"],
            {},
            {},
            "flex is replaced: such an image cannot be released",
        ),
        (["--variant", "main"], {}, {}, "there is no variant 'main'"),
        (["--tag", "latest"], {}, {}, "tags, versions and digests need --push remedy: add --push"),
        ([], {"DOCKER_HOST": "unix:///nowhere.sock"}, {}, "no container engine answers at unix:///nowhere"),
        ([], {"SPYRE_CI__IMAGE__STACK": "/nowhere.yaml"}, {}, "there is no such file"),
        (["--push"], {REPOSITORY: ""}, {}, "there is nowhere to push to"),
        (["--push"], {REPOSITORY: "127.0.0.1:1/spyre/runtime"}, {}, "127.0.0.1:1"),
        ([], {}, {WHEELS: "files: [packages/*.rpm]"}, "senlib has no file 'packages/*.rpm'"),
        ([], {}, {WHEELS: "files: [packages/*.whl, other/*.whl]"}, "senlib has two files named senlib"),
        ([], {}, TWO_SOURCES, "stack.yaml:17: components.1: has git and files: give exactly one"),
        (
            [],
            {"SPYRE_CI__IMAGE__PLATFORM": "linux/s390x"},
            S390X,
            "senlib cannot be built for linux/s390x remedy: its platforms: linux/amd64",
        ),
    ],
)
def test_what_cannot_be_built_is_said_at_once(
    world: World, *, words: list[str], environ: dict[str, str], edits: dict[str, str], said: str
) -> None:
    packed = next((world.folder / "packages").iterdir())
    (world.folder / "other").mkdir()
    (world.folder / "other" / packed.name).write_bytes(packed.read_bytes())
    for old, new in edits.items():
        world.edit(old, new)
    given = [word.replace("REPOSITORY", str(world.repository)) for word in words]
    # A registry that is away may be there another time.
    code = 3 if "127.0.0.1:1" in said else 2
    result = world.image("build", *given, code=code, **environ)
    assert said in result.output
    assert "#1 " not in result.output


def test_an_image_that_is_there_is_checked_without_options_for_tests(world: World) -> None:
    said = world.image("test", "x:1", "--component", "flex", code=2).output
    assert "IMAGE: an existing image is checked without options" in said


@pytest.mark.nightly
def test_the_sbom_is_of_the_image_in_the_registry(world: World, tmp_path: Path) -> None:
    made = world.made("build", "--push")
    # The engine has another one by this name.
    world.client.images.get(os.environ["TEST_BASE_IMAGE"]).tag(made["image"])
    world.image("build", "--push", "--sbom", str(tmp_path / "sbom.json"), code=0)
    assert '"torch"' in (tmp_path / "sbom.json").read_text()


@pytest.fixture
def refusing() -> Iterator[tuple[str, set[str]]]:
    """The address of a registry that takes nobody's word, and by which methods it was asked."""
    methods = set()

    class Refusing(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            methods.add(self.command)
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
            self.end_headers()

        do_HEAD = do_GET = do_POST = do_PUT = do_PATCH = refuse  # noqa: N815  # as http.server calls them

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", methods
        server.shutdown()


@pytest.mark.parametrize("login", ['{"auths": {"%s": {"auth": "cm9ib3Q6d3Jvbmc="}}}', "{}"])
def test_wrong_credentials_are_said_and_nothing_is_pushed(
    world: World, refusing: tuple[str, set[str]], tmp_path: Path, login: str
) -> None:
    address, methods = refusing
    (tmp_path / "config.json").write_text(login.replace("%s", address))
    environ = {"SPYRE_CI__IMAGE__REPOSITORY": f"{address}/spyre/runtime", "DOCKER_CONFIG": str(tmp_path)}
    result = world.image("build", "--push", "--tag", "latest", code=2, **environ)
    assert "refuses the credentials for" in result.output
    assert f"docker login {address}" in result.output
    assert methods == {"HEAD"}


@pytest.mark.nightly
def test_a_second_build_builds_nothing_and_a_failing_step_ends_with_1(world: World) -> None:
    first = world.made("build")
    again = world.image("build", "--json", code=0)
    assert again.json == {**first, "found": True}
    assert first["found"] is False
    assert "is on the engine: nothing is built" in again.err
    world.edit("test -f /opt/drivers/driver.txt", "echo no; exit 3")
    tag = world.shown()["tag"]
    result = world.image("build", "--push", "--tag", "latest", code=1)
    assert "a step ended with code 3" in result.output
    assert [world.digest(one) for one in (tag, "latest")] == [None, None]


def test_a_step_that_says_nothing_for_long_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.2)
    program = tmp_path / "podman"
    program.write_text('#!/bin/sh\necho downloading\nsleep 1\necho "$3" | cut -d= -f2 | xargs touch\n')
    program.chmod(0o755)
    (tmp_path / "Containerfile").write_text("FROM a")
    lines: list[str] = []
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ImageBuilder(name="podman", environ=environ, echo=lines.append).build(Order(context=tmp_path))
    assert lines[0] == "downloading"
    assert re.fullmatch(r"still at it, silent for 0\.\d s: downloading", lines[1])
    assert 2 <= len(lines) <= 6
