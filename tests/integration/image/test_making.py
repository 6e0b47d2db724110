"""`spyre-ci image build --push` against a real engine and a real registry."""

from __future__ import annotations

from typing import Any

import docker
import pytest

from ci.image.registry import find_digest

from .calling import made, spyre_ci
from .conftest import World


@pytest.mark.nightly
def test_an_image_is_built_once_pushed_and_run_by_its_digest(world: World) -> None:
    shown = made(spyre_ci(world, "image", "render", "--json"))
    first = made(spyre_ci(world, "image", "build", "--push", "--tag", "pr-7", "--json"))
    assert first["image"].endswith(f":{shown['tag']}")
    assert first["digest"].startswith("sha256:")
    repository = first["image"].rpartition(":")[0]
    assert find_digest(world.client, f"{repository}:pr-7") == first["digest"]
    again = spyre_ci(world, "image", "build", "--push", "--json")
    assert made(again) == {**first, "found": True}
    assert "nothing is built" in again.stderr

    by_digest = f"{repository}@{first['digest']}"
    world.client.images.remove(first["image"], force=True)
    world.client.images.pull(by_digest)
    said = world.client.containers.run(
        by_digest, ["cat", "/opt/flex/flex.txt"], remove=True, network_mode="none"
    )
    assert said == b"one\n"


@pytest.mark.nightly
def test_a_change_of_a_component_builds_its_layers_alone(world: World) -> None:
    before = made(spyre_ci(world, "image", "build", "--push", "--json"))
    world.commit({"flex.txt": "two\n"})
    after = made(spyre_ci(world, "image", "build", "--push", "--json"))
    assert after["image"] != before["image"]
    layers = [layers_of(world.client, one["image"]) for one in (before, after)]
    changed = [index for index, (old, new) in enumerate(zip(*layers, strict=True)) if old != new]
    # What flex put there, and what is made after it: the user's folder.
    assert len(changed) <= 2
    assert min(changed) == len(layers[0]) - 2


def layers_of(client: docker.DockerClient, name: str) -> list[str]:
    layers: list[str] = client.images.get(name).attrs["RootFS"]["Layers"]
    return layers


@pytest.mark.nightly
def test_a_version_never_moves(world: World) -> None:
    first = made(spyre_ci(world, "image", "build", "--push", "--version", "1.2.3", "--json"))
    repository = first["image"].rpartition(":")[0]
    for tag in ("1.2.3", "1.2", "1"):
        assert find_digest(world.client, f"{repository}:{tag}") == first["digest"]
    made(spyre_ci(world, "image", "build", "--push", "--version", "1.2.3", "--json"))
    world.commit({"flex.txt": "two\n"})
    refused = spyre_ci(world, "image", "build", "--push", "--version", "1.2.3")
    assert refused.exit_code == 2
    assert "1.2.3 is there already" in refused.output
    assert find_digest(world.client, f"{repository}:1.2.3") == first["digest"]


@pytest.mark.nightly
def test_an_image_that_is_not_the_expected_one_gets_no_version(world: World) -> None:
    first = made(spyre_ci(world, "image", "build", "--push", "--json"))
    tested = f"{first['image']}@{first['digest']}"
    made(spyre_ci(world, "image", "build", "--push", "--version", "2.0.0", "--expect", tested, "--json"))
    world.commit({"flex.txt": "not tested\n"})
    refused = spyre_ci(world, "image", "build", "--push", "--version", "2.0.1", "--expect", tested)
    assert refused.exit_code == 1
    assert "was expected" in " ".join(refused.output.split())
    repository = first["image"].rpartition(":")[0]
    assert find_digest(world.client, f"{repository}:2.0.0") == first["digest"]
    assert find_digest(world.client, f"{repository}:2.0.1") is None


@pytest.mark.nightly
def test_a_component_is_taken_from_a_pull_request(world: World) -> None:
    main = made(spyre_ci(world, "image", "render", "--json"))
    world.git("checkout", "-q", "-b", "feature")
    commit = world.commit({"flex.txt": "feature\n"})
    world.git("checkout", "-q", "main")
    other = made(
        spyre_ci(world, "image", "render", "--json", "--with", f"flex=git+file://{world.repository}@{commit}")
    )
    assert other["components"]["flex"] == commit
    assert other["tag"] != main["tag"]
    text = world.folder / "pull-request.md"
    text.write_text(f"Mends it.\n\nTest-With: flex=git+file://{world.repository}@{commit}\n")
    refused = spyre_ci(world, "image", "build", "--test-with", str(text))
    assert refused.exit_code == 2
    assert "is on this machine, which a pull request has no word on" in refused.output
    text.write_text("Test-With: flex=/etc\n")
    refused = spyre_ci(world, "image", "build", "--test-with", str(text))
    assert refused.exit_code == 2
    assert "Test-With: 'flex=/etc' is no override" in refused.output
    text.write_text("no such lines\n")
    assert made(spyre_ci(world, "image", "render", "--json", "--test-with", str(text))) == main_again(world)


def main_again(world: World) -> dict[str, Any]:
    return made(spyre_ci(world, "image", "render", "--json"))


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
        assert result.exit_code == 2
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
    assert result.exit_code == code
    assert said in result.output


def test_a_component_of_two_sources_is_refused_with_its_place(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(
        path.read_text().replace(
            "files: [packages/*.whl]", "files: [packages/*.whl]\n    git: {url: https://x/y, steps: [a]}"
        )
    )
    result = spyre_ci(world, "image", "build", "--push")
    assert result.exit_code == 2
    assert "has git and files: give exactly one of git, image and files" in result.output
    assert "stack.yaml:" in result.output


def test_another_platform_is_refused_before_anything_is_built(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(f"{path.read_text()}platforms: [linux/amd64, linux/s390x]\n")
    result = spyre_ci(world, "image", "build", SPYRE_CI__IMAGE__PLATFORM="linux/s390x")
    assert result.exit_code == 2
    assert "this engine builds for linux/amd64, and not for linux/s390x" in result.output
    path.write_text(
        path.read_text().replace(
            "files: [packages/*.whl]", "files: [packages/*.whl]\n    platforms: [linux/amd64]"
        )
    )
    result = spyre_ci(world, "image", "build", SPYRE_CI__IMAGE__PLATFORM="linux/s390x")
    assert result.exit_code == 2
    assert "senlib cannot be built for linux/s390x" in result.output


@pytest.mark.nightly
def test_the_second_build_of_the_same_inputs_builds_nothing(world: World) -> None:
    first = made(spyre_ci(world, "image", "build", "--json"))
    again = spyre_ci(world, "image", "build", "--json")
    assert made(again) == {**first, "found": True}
    assert first["found"] is False
    assert "is on the engine: nothing is built" in again.stderr


def test_a_ref_that_is_not_there_is_said(world: World) -> None:
    words = ("--with", f"flex=git+file://{world.repository}@nothing")
    result = spyre_ci(world, "image", "build", *words)
    assert result.exit_code == 2
    assert "has no branch or tag 'nothing'" in result.output


def test_an_unreachable_registry_is_said_and_nothing_is_pushed(world: World) -> None:
    repository = "127.0.0.1:1/spyre/runtime"
    result = spyre_ci(world, "image", "build", "--push", SPYRE_CI__IMAGE__REPOSITORY=repository)
    assert result.exit_code == 2
    assert "127.0.0.1:1" in result.output


@pytest.mark.nightly
def test_a_failing_step_ends_with_1_and_nothing_is_pushed(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text().replace("test -f /opt/drivers/driver.txt", "echo no; exit 3"))
    shown = made(spyre_ci(world, "image", "render", "--json"))
    result = spyre_ci(world, "image", "build", "--push", "--tag", "latest")
    assert result.exit_code == 1
    assert "a step ended with code 3" in result.output
    repository = f"{world.registry}/spyre/runtime-{world.run}"
    for tag in (shown["tag"], "latest"):
        assert find_digest(world.client, f"{repository}:{tag}") is None
