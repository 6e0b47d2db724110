"""What is read of an image's answers, and which file of an index speaks for a release."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import cast

import docker
import pytest
from docker.errors import NotFound
from docker.models.containers import Container
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ci.package.index_client import IndexFile
from ci.pins import from_image
from ci.pins.entry_points import signatures
from ci.pins.from_image import ImageSource, created, source_in, told
from ci.pins.from_index import _chosen, _release
from ci.pins.sources import UntoldError


def test_packages_are_told_by_canonical_name_whatever_else_is_printed() -> None:
    content = json.dumps({"path": ["", "/site"], "found": {"Demo_X": "1.0"}})
    said = f"hello\nspyre-ci packages nonsense\nspyre-ci packages {content}\n"
    assert told(said, "image") == ({"demo-x": "1.0"}, ["", "/site"])


@given(st.text(max_size=100))
def test_whatever_an_image_prints_is_packages_or_an_error_of_ours(text: str) -> None:
    with pytest.raises(UntoldError, match="its Python says something else"):
        told(f"spyre-ci packages {text}", "image")


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("2026-03-01T10:00:00.123456789Z", datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        ("", None),
        (None, None),
    ],
)
def test_when_an_image_was_made_is_what_can_be(said: str | None, at: datetime | None) -> None:
    assert created({"Created": said}) == at


def listed(name: str, *, yanked: str | None = None) -> IndexFile:
    return IndexFile(filename=name, url=f"https://index/{name}", sha256=name[-12:], yanked=yanked)


def test_a_wheel_for_every_platform_speaks_for_a_release_then_one_for_linux_then_the_sdist() -> None:
    order = [
        listed("demo-1.0-py3-none-any.whl"),
        listed("demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
        listed("demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"),
        listed("demo-1.0.tar.gz"),
        listed("demo-1.0-py2.py3-none-any.whl", yanked="broken"),
    ]
    left = list(reversed(order))
    for wanted in order:
        assert _chosen(left) == wanted
        left.remove(wanted)


def test_a_release_is_taken_back_when_all_of_it_is() -> None:
    good, bad = listed("demo-1.0.tar.gz"), listed("demo-1.0-py3-none-any.whl", yanked="broken")
    assert _release(Version("1.0"), [good, bad]).yanked is None
    assert _release(Version("1.0"), [bad]).yanked == "broken"
    assert _release(Version("1.0"), [good, bad]).also == {good.sha256, bad.sha256}


@pytest.mark.parametrize(
    ("glob", "chosen"),
    [(None, ["2.10", "2.9", "v2.13.0rc1"]), ("*-ubi9", ["2.13-ubi9"]), ("2.[0-9]", ["2.9"]), ("x*", [])],
)
def test_a_release_is_a_tag_that_is_a_version_or_that_the_settings_choose(
    monkeypatch: pytest.MonkeyPatch, glob: str | None, chosen: list[str]
) -> None:
    tags = ["2.10", "2.13-ubi9", "2.9", "buildcache", "latest", "main", "v2.13.0rc1"]
    monkeypatch.setattr(from_image, "tags_of", lambda _: tags)
    monkeypatch.setattr(from_image, "digest_of", lambda *_: f"sha256:{'a' * 64}")
    said: list[str] = []
    one = ImageSource(
        client=cast("docker.DockerClient", None),
        repository="r/x", entry_points=(), echo=said.append, tags=glob,
    )  # fmt: skip
    assert [found.version for found in one.releases(None)] == chosen
    assert said == ([] if chosen else ["r/x: none of 7 tags matches x*; see pins.tracks.*.tags"])
    assert [found.version for found in one.releases("latest")] == ["latest"]


def test_a_digest_that_is_no_sha_256_is_told_with_its_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_image, "digest_of", lambda *_: f"sha512:{'a' * 128}")
    one = ImageSource(client=cast("docker.DockerClient", None), repository="r/x", entry_points=(), echo=print)
    with pytest.raises(UntoldError, match="its digest in the registry is no SHA-256") as caught:
        one.releases("1.0")
    assert (caught.value.where, caught.value.exit_code) == ("r/x:1.0", 3)


class Empty:
    """A container without files."""

    asked = 0

    def get_archive(self, _: str) -> None:
        self.asked += 1
        raise NotFound("no such file")


def test_a_path_without_an_end_is_not_looked_along() -> None:
    path = [f"/{number}" for number in range(101)]
    with pytest.raises(UntoldError, match="its Python looks along 101 folders"):
        source_in(cast("Container", Empty()), path, where="image", late=lambda: False)
    made = Empty()
    source = source_in(cast("Container", made), [*path[:100], *path[:100]], where="image", late=lambda: False)
    assert (source("demo"), made.asked) == (None, 400)


def test_entry_points_are_looked_for_until_the_time_is_over() -> None:
    made = Empty()
    source = source_in(cast("Container", made), ["/a"], where="image", late=lambda: made.asked > 5)
    assert source("demo") is None
    with pytest.raises(UntoldError, match="its entry points are not found in time"):
        signatures(["demo:run"], source)
    assert made.asked == 6
