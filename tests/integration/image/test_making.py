"""`spyre-ci image build --push` against a real engine and a real registry."""

from __future__ import annotations

import docker
import pytest

from ci.core.registry import find_digest

from .calling import made, spyre_ci
from .conftest import World


@pytest.mark.nightly
def test_a_change_of_a_component_builds_its_layers_alone(world: World) -> None:
    before = made(spyre_ci(world, "image", "build", "--push", "--json"))
    world.commit({"flex.txt": "two\n"})
    after = made(spyre_ci(world, "image", "build", "--push", "--json"))
    assert after["image"] != before["image"]
    layers = [layers_of(world.client, one["image"]) for one in (before, after)]
    changed = [index for index, (old, new) in enumerate(zip(*layers, strict=True)) if old != new]
    # What flex put there; WORKDIR behind it is a layer that stays.
    assert changed == [len(layers[0]) - 2]


def layers_of(client: docker.DockerClient, name: str) -> list[str]:
    layers: list[str] = client.images.get(name).attrs["RootFS"]["Layers"]
    return layers


@pytest.mark.nightly
def test_a_version_never_moves_and_others_only_forwards(world: World) -> None:
    def at(*tags: str) -> list[str | None]:
        return [find_digest(f"{world.registry}/spyre/runtime-{world.run}:{tag}") for tag in tags]

    def release(version: str) -> str:
        told = made(
            spyre_ci(world, "image", "build", "--push", "--version", version, "--tag", "latest", "--json")
        )
        return str(told["digest"])

    first = release("1.2.3")
    assert at("1.2.3", "1.2", "1", "latest") == [first] * 4
    assert release("1.2.3") == first
    world.commit({"flex.txt": "two\n"})
    refused = spyre_ci(world, "image", "build", "--push", "--version", "1.2.3")
    assert refused.code == 2
    assert "1.2.3 is there already" in refused.output
    second = release("1.3.0")
    assert at("1.2.3", "1.2", "1.3", "1", "latest") == [first, first, second, second, second]
    world.commit({"flex.txt": "back-port\n"})
    third = release("1.2.4")
    assert at("1.2.4", "1.2", "1.3", "1", "latest") == [third, third, second, second, second]
    world.commit({"flex.txt": "candidate\n"})
    fourth = release("2.0.0rc1")
    assert at("2.0.0rc1", "2.0", "2", "1", "latest") == [fourth, None, None, second, second]


def test_tags_and_versions_are_refused_before_anything_is_built(world: World) -> None:
    for words, said in (
        (["--tag", "latest"], "tags and versions are given in the registry remedy: add --push"),
        (["--push", "--tag", "a b"], "'a b' is no tag"),
        (
            ["--expect", f"sha256:{'0' * 64}"],
            "it is the registry's image that is expected remedy: add --push",
        ),
        (["--push", "--version", "1.2"], "'1.2' is no version X.Y.Z"),
        (["--push", "--tag", f"stack-{'0' * 20}"], "would be taken for the name of another image"),
    ):
        result = spyre_ci(world, "image", "build", *words)
        assert result.code == 2
        assert said in result.output
        assert "FROM" not in result.output


@pytest.mark.parametrize(
    ("words", "environ", "code", "said"),
    [
        (["--with", "flex=git+file:///nowhere@main"], {}, 2, "check that file:///nowhere can be reached"),
        (["--variant", "main"], {}, 2, "there is no variant 'main'"),
        ([], {"DOCKER_HOST": "unix:///nowhere.sock"}, 2, "no container engine answers at unix:///nowhere"),
        (["--stack", "/nowhere.yaml"], {}, 2, "there is no such file"),
    ],
)
def test_what_cannot_be_built_is_said_at_once(
    world: World, words: list[str], environ: dict[str, str], code: int, said: str
) -> None:
    result = spyre_ci(world, "image", "build", *words, **environ)
    assert result.code == code
    assert said in result.output


def test_a_component_of_two_sources_is_refused_with_its_place(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(
        path.read_text().replace(
            "files: [packages/*.whl]", "files: [packages/*.whl]\n    git: {url: https://x/y, steps: [a]}"
        )
    )
    result = spyre_ci(world, "image", "build", "--push")
    assert result.code == 2
    assert "has git and files: give exactly one of git, image and files" in result.output
    assert "stack.yaml:" in result.output


def test_a_component_that_is_not_for_the_platform_is_refused(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(
        f"{path.read_text()}platforms: [linux/amd64, linux/s390x]\n".replace(
            "files: [packages/*.whl]", "files: [packages/*.whl]\n    platforms: [linux/amd64]"
        )
    )
    result = spyre_ci(world, "image", "build", SPYRE_CI__IMAGE__PLATFORM="linux/s390x")
    assert result.code == 2
    assert "senlib cannot be built for linux/s390x" in result.output


@pytest.mark.nightly
def test_the_second_build_of_the_same_inputs_builds_nothing(world: World) -> None:
    first = made(spyre_ci(world, "image", "build", "--json"))
    again = spyre_ci(world, "image", "build", "--json")
    assert made(again) == {**first, "found": True}
    assert first["found"] is False
    assert "is on the engine: nothing is built" in again.err


def test_a_ref_that_is_not_there_is_said(world: World) -> None:
    words = ("--with", f"flex=git+file://{world.repository}@nothing")
    result = spyre_ci(world, "image", "build", *words)
    assert result.code == 2
    assert "has no branch or tag 'nothing'" in result.output


def test_an_unreachable_registry_is_said_and_nothing_is_pushed(world: World) -> None:
    repository = "127.0.0.1:1/spyre/runtime"
    result = spyre_ci(world, "image", "build", "--push", SPYRE_CI__IMAGE__REPOSITORY=repository)
    assert result.code == 3
    assert "127.0.0.1:1" in result.output


@pytest.mark.nightly
def test_a_failing_step_ends_with_1_and_nothing_is_pushed(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text().replace("test -f /opt/drivers/driver.txt", "echo no; exit 3"))
    shown = made(spyre_ci(world, "image", "build", "--print", "--json"))
    result = spyre_ci(world, "image", "build", "--push", "--tag", "latest")
    assert result.code == 1
    assert "a step ended with code 3" in result.output
    repository = f"{world.registry}/spyre/runtime-{world.run}"
    for tag in (shown["tag"], "latest"):
        assert find_digest(f"{repository}:{tag}") is None
