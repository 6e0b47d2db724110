"""Images of ours on an engine, and what keeps them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.image.containerfile import DIGITS, TAG_PREFIX
from ci.report.released import Released
from ci.retention.images import find_images, is_our_tag
from ci.retention.rules import Item
from tests.retention_world import DIGEST

TAG = "spyre/runtime:stack-" + "0" * 20
NUMBER = f"sha256:{'1' * 64}"
UNDATED: dict[str, Any] = {
    "Created": "0001-01-01T00:00:00Z",
    "Metadata": {"LastTagTime": "0001-01-01T00:00:00Z"},
}


def find(*, container: str = "", released: Released | None = None, **more: Any) -> list[Item]:
    attrs = {
        "Id": NUMBER,
        "RepoTags": [TAG],
        "RepoDigests": [],
        "Config": {"Labels": {"io.github.torch-spyre.variant": "pinned"}},
        "Created": "2026-01-02T03:04:05.123456789Z",
        "Size": 7,
    } | more
    client: Any = SimpleNamespace(
        images=SimpleNamespace(list=lambda: [SimpleNamespace(attrs=attrs)]),
        containers=SimpleNamespace(list=lambda **_: [SimpleNamespace(attrs={"Image": container})]),
    )
    return find_images(client, released or Released())


def test_one_of_ours_is_found_with_its_age_and_size() -> None:
    (one,) = find()
    assert (one.name, one.path, one.bytes, one.held) == (TAG, NUMBER, 7, "")
    assert one.at == pytest.approx(1767323045.123456)
    # An image that is built the same again has the date of its commit, or none.
    (one,) = find(Created="1970-01-01T00:00:00Z", Metadata={"LastTagTime": "2026-01-02T03:04:05Z"})
    assert one.at == 1767323045
    (one,) = find(**UNDATED)
    assert one.at is None


@pytest.mark.parametrize(
    "attrs",
    [
        {"Config": {"Labels": {"maintainer": "x"}}},
        {"Config": {"Labels": None}},
        {"Config": None},
        {"RepoTags": ["mine:latest"]},
        {"RepoTags": []},
        {"RepoTags": None},
        {"RepoTags": ["spyre/runtime-pytorch:cache-amd64"]},
    ],
)
def test_others_and_what_is_built_on_ours_are_passed_over(attrs: dict[str, Any]) -> None:
    assert find(**attrs) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"container": NUMBER}, "a container uses it"),
        ({"released": Released(digests={"1" * 64})}, "a release names it"),
        (
            {"RepoDigests": [f"x@sha256:{DIGEST}"], "released": Released(digests={DIGEST})},
            "a release names it",
        ),
        ({"released": Released(words={TAG})}, "a release names it"),
        ({"released": Released(broken=[(Path("x"), "")])}, "a release that cannot be read may name it"),
        ({"RepoTags": [TAG, "spyre/runtime:nightly"]}, "it has another tag: spyre/runtime:nightly"),
    ],
)
def test_what_keeps_an_image(more: dict[str, Any], why: str) -> None:
    (one,) = find(**more)
    assert one.held == why


def test_the_tags_that_builds_give_are_ours() -> None:
    assert is_our_tag(f"a:{TAG_PREFIX}{'f' * DIGITS}")
    assert not any(map(is_our_tag, ["a:stack-latest", "a", "127.0.0.1:5000/stack-00"]))
