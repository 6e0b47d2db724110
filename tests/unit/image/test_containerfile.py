"""What a stack is rendered to, and the tag that names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.image.containerfile import quoted, render, run
from ci.image.resolved import (
    ResolvedComponent,
    ResolvedFile,
    ResolvedPytorch,
    ResolvedStack,
    identity_of,
)
from ci.image.stack import read_stack

DIGEST = "sha256:" + "d" * 64
STACK = """version: 1
name: spyre-runtime
base:
  image: registry.example:5000/debian:bookworm
  packages: [python3-venv, ca-certificates]
  build_packages: [gcc, cmake]
variants: {pinned: {version: 2.13.0}}
args: {JOBS: "2"}
environment: {LANG: C.UTF-8}
labels: {org.opencontainers.image.licenses: Apache-2.0}
components:
  - name: torch-spyre
    needs: [pytorch, flex, drivers]
    git:
      url: https://github.com/torch-spyre/torch-spyre.git
      subfolder: python
      steps: ['pip wheel --no-deps -w "$WHEELS" .']
    test: [python -m pytest --junit-xml="$JUNIT_DIR/unit.xml" tests]
    test_on: runtime
    requirements: [regex, "numpy>=2"]
    development: [pytest>=8, expecttest]
  - name: flex
    needs: [senlib]
    args: {BUILD_TYPE: Release}
    git:
      url: https://github.com/torch-spyre/flex.git
      steps: [cmake -B build, 'cmake --install build --prefix "$DESTDIR/usr"']
    environment: {FLEX_HOME: /usr/lib/flex}
  - name: senlib
    image: {name: "registry.example:5000/senlib:1", paths: [{source: /opt/senlib}, {source: /a, target: /b}]}
  - name: drivers
    files: [packages/drivers_1.2_amd64.deb]
"""


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedStack:
    path = tmp_path / "stack.yaml"
    path.write_text(STACK)
    stack = read_stack(path)
    exact: dict[str, dict[str, Any]] = {
        "torch-spyre": {"commit": "a" * 40},
        "flex": {"commit": "b" * 40},
        "senlib": {"digest": DIGEST},
        "drivers": {"files": (ResolvedFile(path="packages/drivers_1.2_amd64.deb", sha256="c" * 64),)},
    }
    return ResolvedStack(
        stack=stack,
        variant="pinned",
        platform="linux/amd64",
        base_digest=DIGEST,
        pytorch=ResolvedPytorch(requirement="torch==2.13.0"),
        components=tuple(ResolvedComponent(component=one, **exact[one.name]) for one in stack.components),
    )


def test_a_stack_is_rendered(resolved: ResolvedStack, golden: Callable[[str, str], None]) -> None:
    golden("image/Containerfile", render(resolved))


def test_every_run_is_one_argument_of_one_shell(resolved: ResolvedStack) -> None:
    lines = [line for line in render(resolved).splitlines() if line.startswith("RUN ")]
    assert len(lines) > 10
    for line in lines:
        *shell, script = json.loads(line[line.index("[") :])
        assert shell == ["/bin/bash", "-euo", "pipefail", "-c"]
        assert script


@given(st.text())
def test_whatever_a_step_says_stays_in_its_line(step: str) -> None:
    line = run(step)
    assert "\n" not in line
    assert json.loads(line.removeprefix("RUN "))[-1] == step


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_value_is_quoted(value: str) -> None:
    inside = quoted(value)[1:-1]
    assert inside.replace("\\\\", "").replace('\\"', "").replace("\\$", "").count('"') == 0
    assert inside.replace("\\\\", "\0").replace('\\"', '"').replace("\\$", "$").replace("\0", "\\") == value


@pytest.mark.parametrize("value", ["a\nRUN id", "\0", "\x1b[0m"])
def test_a_value_with_control_characters_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        quoted(value)


def test_a_change_of_the_last_component_leaves_all_lines_before_it(resolved: ResolvedStack) -> None:
    *first, last = resolved.components
    changed = replace(resolved, components=(*first, replace(last, commit="f" * 40)))
    before, after = render(resolved).splitlines(), render(changed).splitlines()
    different = [line for line, other in zip(before, after, strict=True) if line != other]
    assert different == [f'LABEL io.github.torch-spyre.component.torch-spyre="{"a" * 40}"']


def test_the_tag_is_that_of_everything_that_goes_in(resolved: ResolvedStack) -> None:
    def tag(one: ResolvedStack) -> str:
        return identity_of(one, render(one))

    first = resolved.components[0]
    others = [
        replace(resolved, base_digest="sha256:" + "e" * 64),
        replace(resolved, platform="linux/s390x"),
        replace(resolved, pytorch=ResolvedPytorch(requirement="torch==2.13.1")),
        replace(resolved, components=(replace(first, commit="1" * 40), *resolved.components[1:])),
        replace(resolved, stack=resolved.stack.model_copy(update={"args": {"JOBS": "3"}})),
    ]
    tags = {tag(one) for one in [resolved, *others]}
    assert len(tags) == 1 + len(others)
    assert all(one.startswith("stack-") and len(one) == 26 for one in tags)
    # The commit of the checkout that builds is told beside it, and the image is the same.
    assert tag(replace(resolved, revision="9" * 40)) == tag(resolved)


def test_another_package_index_makes_another_tag(resolved: ResolvedStack) -> None:
    text = render(resolved)
    assert identity_of(resolved, text, index="a") != identity_of(resolved, text, index="b")


def test_package_files_that_a_build_needs_are_installed_there(resolved: ResolvedStack) -> None:
    text = render(resolved)
    build = text[text.index("AS build-torch-spyre") : text.index("COPY sources/torch-spyre/")]
    mounted = "--mount=type=bind,source=packages/drivers,target=/mnt/packages"
    assert mounted in build
    assert mounted not in text[text.index("AS build-flex") : text.index("AS build-torch-spyre")]


def test_the_credentials_of_an_index_are_mounted_into_our_own_steps_alone(resolved: ResolvedStack) -> None:
    lines = render(resolved).splitlines()
    ours = [line for line in lines if "id=pip" in line]
    steps = [one for part in resolved.stack.components if part.git for one in part.git.steps]
    assert len(ours) == 3
    assert all("pip install --no-compile" in line for line in ours)
    for step in steps:
        (line,) = [line for line in lines if json.dumps(step)[1:-1] in line]
        assert "id=pip" not in line
