"""What an image may be released as, and that a component's own Containerfile is built of it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, UsageError
from ci.image.model import Component, Stack
from ci.image.pipeline import Prepared, Release, check_release, own_order
from ci.image.resolved import ResolvedComponent, ResolvedPytorch, ResolvedStack


def part_of(git: dict[str, object]) -> tuple[ResolvedComponent, ResolvedStack]:
    source = {"url": "https://example.com/x.git", "containerfile": "Containerfile", **git}
    component = Component.model_validate({"name": "x", "git": {**source, "paths": [{"source": "/opt/x"}]}})
    stack = Stack.model_validate(
        {
            "version": 1,
            "name": "runtime",
            "base": {"image": "debian:bookworm"},
            "variants": {"pinned": {"version": "2.13.0"}},
            "args": {"JOBS": "2"},
        }
    )
    part = ResolvedComponent(component=component, commit="a" * 40)
    resolved = ResolvedStack(
        stack=stack,
        variant="pinned",
        platform="linux/amd64",
        base_digest="sha256:" + "d" * 64,
        pytorch=ResolvedPytorch(requirement="torch==2.13.0"),
        components=(part,),
    )
    return part, resolved


def test_a_components_own_folder_is_the_context_and_no_secret_is_given(tmp_path: Path) -> None:
    (tmp_path / "sources/x/sub").mkdir(parents=True)
    (tmp_path / "sources/x/sub/Containerfile").write_text("FROM a")
    order = own_order(*part_of({"subfolder": "sub", "target": "made"}), tmp_path)
    assert order.context == tmp_path / "sources/x/sub"
    assert (order.containerfile, order.target, order.args) == ("Containerfile", "made", {"PARAM_JOBS": "2"})
    assert order.secrets == {}


@pytest.mark.parametrize("name", ["sub", "sub/Containerfile", None])
def test_one_that_is_not_there_or_leads_out_is_refused(tmp_path: Path, name: str | None) -> None:
    outside, source = tmp_path / "outside", tmp_path / "sources/x"
    for folder in (outside, source):
        folder.mkdir(parents=True)
    (outside / "Containerfile").write_text("FROM a")
    if name is not None:
        link = source / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(outside if name == "sub" else outside / "Containerfile")
    with pytest.raises(MissingInputError, match="x has no Containerfile"):
        own_order(*part_of({"subfolder": "sub"}), tmp_path)


@pytest.mark.parametrize(
    ("release", "replaced", "tests", "said"),
    [
        (Release(tags=["latest"]), False, True, "tags and versions are given in the registry"),
        (Release(pushes=True, version="1.2"), False, True, "is no version"),
        (Release(pushes=True, tags=["1.2"]), False, True, "is a version"),
        (Release(pushes=True, version="1.2.3"), True, True, "x is taken from elsewhere: that is no release"),
        (Release(pushes=True, tags=["nightly"]), True, True, "that is no release"),
        (Release(pushes=True, tags=["pr-1"]), False, False, "gets no tag that moves and no version"),
    ],
)
def test_what_an_image_cannot_be_released_as_is_refused(
    release: Release, replaced: bool, tests: bool, said: str
) -> None:
    _, resolved = part_of({})
    names = ("x",) if replaced else ()
    prepared = Prepared(resolved=resolved, containerfile="", tag="t", folder=Path(), replaced=names)
    with pytest.raises(UsageError, match=said):
        check_release(prepared, release, tests=tests)
    check_release(prepared, Release(pushes=True, tags=["pr-1"]), tests=True)
