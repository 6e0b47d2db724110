"""Images of ours among an engine's, and what holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.image.containerfile import DIGITS, TAG_PREFIX
from ci.report.released import Released
from ci.retention.images import find_images, is_our_tag
from ci.retention.things import Found
from tests.retention_world import DIGEST

OURS = {"io.github.torch-spyre.variant": "pinned"}
TAG = "spyre/runtime:stack-" + "0" * 20


def image(number: str = "1", **more: Any) -> dict[str, Any]:
    return {
        "Id": f"sha256:{number * 64}",
        "RepoTags": [TAG],
        "RepoDigests": [],
        "Config": {"Labels": OURS},
        "Created": "2026-01-02T03:04:05.123456789Z",
        "Size": 7,
    } | more


def look(
    *images: dict[str, Any],
    in_use: Sequence[str] = (),
    released: Released | None = None,
    wanted: Mapping[str, str] | None = None,
) -> Found:
    return find_images(images, in_use=in_use, released=released or Released(), wanted=wanted or {})


def test_one_of_ours_is_found_with_its_age_and_size() -> None:
    (one,) = look(image()).things
    assert (one.name, one.own, one.held) == (TAG, 7, ())
    assert one.at == pytest.approx(1767323045.123456)


def test_the_last_name_dates_an_image_that_is_made_the_same_again() -> None:
    dated = image(Created="1970-01-01T00:00:00Z", Metadata={"LastTagTime": "2026-01-02T03:04:05Z"})
    (one,) = look(dated).things
    assert one.at == 1767323045
    (none,) = look(
        image(Created="0001-01-01T00:00:00Z", Metadata={"LastTagTime": "0001-01-01T00:00:00Z"})
    ).things
    assert none.at is None


def test_others_are_passed_over_and_those_built_on_ours_left_alone() -> None:
    found = look(
        image(Config={"Labels": {"maintainer": "x"}}),
        image(Config={"Labels": None}),
        image(Config=None),
        image(RepoTags=["mine:latest"]),
        image(RepoTags=[]),
        image(RepoTags=None),
        image(RepoTags=["spyre/runtime-pytorch:cache-amd64"]),
    )
    assert list(found.things) == []
    assert [one.path for one in found.foreign] == [
        "mine:latest", f"sha256:{'1' * 64}", f"sha256:{'1' * 64}", "spyre/runtime-pytorch:cache-amd64",
    ]  # fmt: skip


def test_what_holds_an_image() -> None:
    def held(*, told: dict[str, Any] | None = None, **more: Any) -> str:
        (one,) = look(image(**(told or {})), **more).things
        return "; ".join(one.held)

    assert held(in_use=[f"sha256:{'1' * 64}"]) == "a container is of it"
    assert held(told={"RepoDigests": [f"x@sha256:{DIGEST}"]}, released=Released(digests={DIGEST})) == (
        "a release names it"
    )
    assert held(released=Released(words={TAG})) == "a release names it"
    assert held(released=Released(broken=[(Path("x"), "")])) == "a release that cannot be read may name it"
    assert held(wanted={"1" * 64: "a run that stays ran in it"}) == "a run that stays ran in it"
    assert "has a name that moves" in held(told={"RepoTags": [TAG, "spyre/runtime:nightly"]})


def test_an_image_that_another_stands_on_stays() -> None:
    base = image("1", RootFS={"Layers": ["a"]})
    on_it = image("2", RootFS={"Layers": ["a", "b"]}, RepoTags=["mine:1"])
    beside = image("3", RootFS={"Layers": ["c", "a"]}, RepoTags=[TAG[:-1] + "3"])
    assert {one.path[7]: one.held for one in look(base, on_it, beside).things} == {
        "1": ("another image stands on it",), "3": (),
    }  # fmt: skip


def test_a_tag_is_ours_as_our_builds_give_it() -> None:
    assert is_our_tag(TAG)
    assert not any(map(is_our_tag, ["a:stack-latest", "a", "127.0.0.1:5000/stack-00"]))


def test_the_tags_that_builds_give_are_ours() -> None:
    assert is_our_tag(f"a:{TAG_PREFIX}{'f' * DIGITS}")
