"""Which kind of file a file is, and which names need care."""

from __future__ import annotations

import pytest

from ci.package.lint.files import File, is_action, is_containerfile, is_groovy, is_shell, is_text, is_workflow


def file(path: str, head: bytes = b"") -> File:
    return File(path=path, head=head)


@pytest.mark.parametrize(
    ("path", "head", "is_one"),
    [
        ("build.sh", b"", True),
        ("build.sh", b"#!/bin/bash\n", True),
        ("run", b"#!/usr/bin/env bash\n", True),
        ("run", b"#!/usr/bin/env -S bash -e\n", True),
        ("run", b"#! /bin/dash\n", True),
        ("run", b"#!/usr/bin/env python3\n", False),
        ("tool.sh", b"#!/usr/bin/zsh\n", False),
        ("entry.sh.j2", b"#!/bin/sh\n", False),
        ("run", b"", False),
        ("notes.txt", b"bash\n", False),
    ],
)
def test_a_shell_script_is_told_by_its_first_line_then_by_its_name(
    path: str, head: bytes, is_one: bool
) -> None:
    assert is_shell(file(path, head)) is is_one


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("Containerfile", True),
        ("docker/Dockerfile", True),
        ("Dockerfile.cuda", True),
        ("Containerfile-wheel", True),
        ("ci/base.Dockerfile", True),
        ("Dockerfile.dockerignore", False),
        ("Dockerfile.j2", False),
        ("Dockerfiles.md", False),
        ("Containerfile.py", False),
        ("Dockerfiles", False),
    ],
)
def test_a_containerfile_is_told_by_its_name(path: str, is_one: bool) -> None:
    assert is_containerfile(file(path)) is is_one


def test_a_containerfile_of_another_name_is_told_by_the_settings() -> None:
    assert is_containerfile(file("golden/runtime"), ("golden/*",))
    assert not is_containerfile(file("other/runtime"), ("golden/*",))


@pytest.mark.parametrize(
    ("path", "workflow", "action"),
    [
        (".github/workflows/a.yml", True, False),
        (".github/workflows/a.yaml", True, False),
        (".github/workflows/a.md", False, False),
        (".github/workflows/below/a.yml", False, False),
        ("action.yml", False, True),
        (".github/actions/setup/action.yaml", False, True),
        ("roles/action.yml", False, False),
    ],
)
def test_workflows_and_actions_are_told_by_their_places(path: str, workflow: bool, action: bool) -> None:
    assert (is_workflow(file(path)), is_action(file(path))) == (workflow, action)


def test_what_holds_a_zero_byte_is_no_text() -> None:
    assert not is_text(file("a.bin", b"\x89PNG\0"))
    assert is_text(file("a.txt", "größer".encode()))


@pytest.mark.parametrize(
    ("path", "suffix"), [("a/b.py", ".py"), ("a.b/c", ""), (".bashrc", ""), ("x.tar.gz", ".gz")]
)
def test_a_suffix_is_of_the_name_alone(path: str, suffix: str) -> None:
    assert file(path).suffix == suffix


@pytest.mark.parametrize(
    ("path", "odd"),
    [("a b.py", False), ("-a.py", False), ("ä.py", False), ("a\nb.py", True), ("\udcff", True)],
)
def test_a_name_that_no_line_can_hold_is_odd(path: str, odd: bool) -> None:
    assert file(path).is_odd is odd


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("jenkins/Jenkinsfile", True),
        ("jenkins/Jenkinsfile.pr", True),
        ("jenkins/vars/step.groovy", True),
        ("jenkins/vars/step.txt", False),
        ("Jenkinsfile.md", False),
        ("Jenkinsfile.j2", False),
    ],
)
def test_groovy_is_known_by_name(path: str, is_one: bool) -> None:
    assert is_groovy(file(path)) is is_one
