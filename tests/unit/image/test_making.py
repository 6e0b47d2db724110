"""A component's own Containerfile is built of the component alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import CommandError, MissingInputError
from ci.image.making import own_order
from ci.image.model import Component, Stack
from ci.image.resolved import ResolvedComponent, ResolvedPytorch, ResolvedStack

COMMIT = "a" * 40


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
    part = ResolvedComponent(component=component, commit=COMMIT)
    resolved = ResolvedStack(
        stack=stack,
        variant="pinned",
        platform="linux/amd64",
        base_digest="sha256:" + "d" * 64,
        pytorch=ResolvedPytorch(requirement="torch==2.13.0"),
        components=(part,),
    )
    return part, resolved


def test_its_folder_is_the_context_without_what_it_ignores(tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.mkdir()
    for name, text in {"Containerfile": "FROM a", ".dockerignore": "left", "left": "", "kept": ""}.items():
        (source / name).write_text(text)
    part, resolved = part_of({})
    with own_order(part, resolved, source, environ={"https_proxy": "http://p", "HOME": "/"}) as order:
        assert order.folder is not None
        assert {path.name for path in order.folder.iterdir()} == {"Containerfile", ".dockerignore", "kept"}
        assert order.args == {"https_proxy": "http://p", "PARAM_JOBS": "2"}
    assert (source / "left").exists()


@pytest.mark.parametrize("name", ["sub", "sub/Containerfile"])
def test_a_link_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    source, outside = tmp_path / "x", tmp_path / "outside"
    source.mkdir()
    outside.mkdir()
    (outside / "Containerfile").write_text("FROM a")
    link = source / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside if name == "sub" else outside / "Containerfile")
    part, resolved = part_of({"subfolder": "sub"})
    with (
        pytest.raises(CommandError, match="of x is a link that leads out of it"),
        own_order(part, resolved, source, environ={}),
    ):
        pass


def test_one_that_is_not_there_is_said(tmp_path: Path) -> None:
    part, resolved = part_of({})
    with (
        pytest.raises(MissingInputError, match="x has no Containerfile"),
        own_order(part, resolved, tmp_path, environ={}),
    ):
        pass
