"""Images of a job: pinned by their registry, built of a repository and of a folder, and built once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE, CommandError, MissingInputError, UsageError
from ci.image.builder import REVISION_LABEL, BuildStepError, ImageBuilder
from ci.jobs.images import Builder, UnpinnedAwayError, UnpinnedImageError
from ci.jobs.spec import Image
from tests.repositories import commit


def builder(folder: Path, lines: list[str]) -> Builder:
    environ = dict(os.environ)
    # The engine of tests has no network of its own.
    command = ImageBuilder(name="docker", environ=environ, echo=lines.append, network="host")
    return Builder(folder=folder, environ=environ, builder=command, echo=lines.append)


class Site:
    """A repository, a folder and a name in the test registry of this test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.to = f"{os.environ['TEST_REGISTRY']}/jobs/x{secrets.token_hex(4)}"
        self.lines: list[str] = []
        self.builder = builder(folder, self.lines)

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self) -> str:
        return commit(self.folder / "app")

    def of_folder(self) -> str:
        upload = {"folder": "app", "to": self.to}
        return self.builder.resolve(Image.model_validate({"upload": upload}))

    def of_git(self, ref: str = "main", **more: str) -> str:
        git = {"url": f"file://{self.folder / 'app'}", "ref": ref, "to": self.to, **more}
        return self.builder.resolve(Image.model_validate({"git": git}))

    def count(self, words: str) -> int:
        return sum(words in line for line in self.lines)


@pytest.fixture
def site(tmp_path: Path, client: docker.DockerClient) -> Iterator[Site]:
    made = Site(tmp_path)
    made.put("app/Containerfile", f"FROM {os.environ['TEST_BASE_IMAGE']}\nCOPY . /app/\n")
    made.put("app/words.txt", "one\n")
    yield made
    for image in client.api.images(filters={"reference": f"{made.to}*"}):
        with suppress(APIError):
            client.api.remove_image(image["Id"], force=True)


def listed(client: docker.DockerClient, image: str) -> list[str]:
    """The files that an image got, pulled from the registry by its digest."""
    client.images.pull(image)
    said = client.containers.run(image, ["ls", "-A", "/app"], remove=True, network_mode="none")
    return bytes(said).decode().split()


def test_a_folder_is_built_pushed_and_named_by_its_digest_once(
    site: Site, client: docker.DockerClient
) -> None:
    site.put("app/.dockerignore", "*.log\n.venv\n")
    site.put("app/run.log", "x")
    site.put("app/.venv/lib", "x")
    first = site.of_folder()
    assert first.startswith(f"{site.to}@sha256:")
    assert listed(client, first) == [".dockerignore", "Containerfile", "words.txt"]
    site.put("app/run.log", "what is left out makes no difference")
    assert (site.of_folder(), site.count("not built again"), site.count("RUN ")) == (first, 1, 0)
    assert site.count("pushed ") == 1
    site.put("app/words.txt", "two\n")
    assert site.of_folder() != first


def test_a_repository_is_built_at_its_ref_once_for_a_commit(site: Site, client: docker.DockerClient) -> None:
    commit = site.commit()
    first = site.of_git()
    assert client.images.pull(first).labels[REVISION_LABEL] == commit
    assert listed(client, first) == ["Containerfile", "words.txt"]
    assert (site.of_git(commit), site.count("not built again")) == (first, 1)
    site.put("app/words.txt", "two\n")
    site.commit()
    assert site.of_git() != first
    with pytest.raises(UsageError, match="has no branch or tag 'gone'"):
        site.of_git("gone")
    with pytest.raises(MissingInputError, match=r"there is no docker/Containerfile"):
        site.of_git(containerfile="docker/Containerfile")


def test_a_link_out_of_the_folder_is_refused(site: Site) -> None:
    (site.folder / "app/passwd").symlink_to("/etc/passwd")
    with pytest.raises(CommandError, match="a link leads out of the folder: passwd"):
        site.of_folder()


def test_a_folder_that_is_not_there_is_told(site: Site) -> None:
    (site.folder / "app").rename(site.folder / "other")
    with pytest.raises(MissingInputError, match="there is no such folder"):
        site.of_folder()


def test_a_step_that_fails_is_told_with_its_last_lines(site: Site) -> None:
    base = os.environ["TEST_BASE_IMAGE"]
    site.put("app/Containerfile", f"FROM {base}\nRUN echo '::error::it broke'; exit 7\n")
    with pytest.raises(BuildStepError, match="a step ended with code 7") as caught:
        site.of_folder()
    assert "::error::it broke" in str(caught.value)
    assert "\n::error" not in str(caught.value)


def test_a_registry_that_is_not_there_is_told(site: Site) -> None:
    site.to = "127.0.0.1:1/jobs/x"
    with pytest.raises(CommandError, match="does not answer for"):
        site.of_folder()


def test_a_name_is_pinned_without_a_pull_and_one_without_a_digest_is_refused(site: Site) -> None:
    base = os.environ["TEST_BASE_IMAGE"]
    pinned = site.builder.resolve(Image(name=base))
    assert pinned.startswith(f"{base.rpartition(':')[0]}@sha256:")
    assert site.builder.resolve(Image(name=pinned)) == pinned
    missing = f"{os.environ['TEST_REGISTRY']}/nothing:1"
    with pytest.raises(
        UnpinnedImageError, match=r"cannot find the digest of .* \(its registry has no such image"
    ) as caught:
        site.builder.resolve(Image(name=missing))
    assert caught.value.exit_code == EXIT_USAGE
    assert "image.allow_moving_tag" in str(caught.value)


def test_a_name_whose_registry_is_away_is_taken_only_where_the_spec_allows_it(tmp_path: Path) -> None:
    lines: list[str] = []
    name = "127.0.0.1:1/spyre/runtime:1"
    with pytest.raises(UnpinnedAwayError, match="pods may get different images") as caught:
        builder(tmp_path, lines).resolve(Image(name=name))
    assert caught.value.exit_code == EXIT_INCOMPLETE
    assert builder(tmp_path, lines).resolve(Image(name=name, allow_moving_tag=True)) == name
    assert f"{name} is not pinned: cannot find its digest (the registry 127.0.0.1:1 does not" in lines[0]
