"""What a stack is rendered to, and the tag that names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.image.containerfile import identity_of, install_pytorch, quoted, render, run
from ci.image.model import Role
from ci.image.resolve import ResolvedPytorch, ResolvedStack
from ci.image.roles import LABEL, PORTS, labels_of, roles_in, start_files

from .stacks import STACK, resolved


@pytest.fixture
def pinned(tmp_path: Path) -> ResolvedStack:
    return resolved(tmp_path, STACK)


@pytest.fixture
def source(tmp_path: Path) -> ResolvedStack:
    return resolved(tmp_path, STACK.partition("components:")[0], "source")


def test_a_stack_is_rendered(
    pinned: ResolvedStack, source: ResolvedStack, golden: Callable[[str, str], None]
) -> None:
    golden("image/Containerfile", render(pinned))
    golden("image/Containerfile-source", render(source))


def test_every_run_is_one_argument_of_one_shell(pinned: ResolvedStack) -> None:
    lines = [line for line in render(pinned).splitlines() if line.startswith("RUN ")]
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


def test_a_change_of_the_last_component_leaves_all_lines_before_it(pinned: ResolvedStack) -> None:
    *first, last = pinned.components
    changed = replace(pinned, components=(*first, replace(last, revision="f" * 40)))
    before, after = render(pinned).splitlines(), render(changed).splitlines()
    different = [line for line, other in zip(before, after, strict=True) if line != other]
    assert different == [f'LABEL io.github.torch-spyre.component.torch-spyre="{"a" * 40}"']


def test_the_tag_is_that_of_everything_that_goes_in(pinned: ResolvedStack, source: ResolvedStack) -> None:
    def saying(one: ResolvedStack, **keys: object) -> ResolvedStack:
        return replace(one, stack=one.stack.model_copy(update=keys))

    *rest, last = pinned.components
    tested = [last.component.model_copy(update={name: ("a",)}) for name in ("test", "device_test")]
    git = source.pytorch.git
    assert git is not None
    every = [
        pinned,
        replace(pinned, base_digest="sha256:" + "e" * 64),
        replace(pinned, platform="linux/s390x"),
        replace(pinned, pytorch=ResolvedPytorch(requirement="torch==2.13.1")),
        replace(pinned, components=(*rest, replace(last, revision="1" * 40))),
        *(replace(pinned, components=(*rest, replace(last, component=one))) for one in tested),
        saying(pinned, args={"JOBS": "3"}),
        saying(pinned, roles={"notebook": Role(command="other")}),
        source,
        replace(source, pytorch=replace(source.pytorch, commit="b" * 40)),
        replace(source, pytorch=replace(source.pytorch, git=git.model_copy(update={"steps": ("make",)}))),
        saying(source, args={"JOBS": "3"}),
    ]
    tags = {identity_of(one, render(one)) for one in every}
    tags.add(identity_of(pinned, render(pinned), index="another"))
    assert len(tags) == len(every) + 1
    assert all(one.startswith("stack-") and len(one) == 26 for one in tags)
    # The commit of the checkout that builds is told beside it, and the image is the same.
    assert identity_of(replace(pinned, revision="9" * 40), render(pinned)) in tags


def test_package_files_that_a_build_needs_are_installed_there(pinned: ResolvedStack) -> None:
    text = render(pinned)
    build = text[text.index("AS build-torch-spyre") : text.index("COPY sources/torch-spyre/")]
    mounted = "--mount=type=bind,source=packages/drivers,target=/mnt/packages"
    assert mounted in build
    assert mounted not in text[text.index("AS build-flex") : text.index("AS build-torch-spyre")]


def test_the_credentials_of_an_index_are_mounted_into_our_own_steps_alone(pinned: ResolvedStack) -> None:
    lines = render(pinned).splitlines()
    ours = [line for line in lines if "id=pip" in line]
    steps = [one for part in pinned.stack.components if part.git for one in part.git.steps]
    assert len(ours) == 5
    assert all("pip install --no-compile" in line for line in ours)
    for step in steps:
        (line,) = [line for line in lines if json.dumps(step)[1:-1] in line]
        assert "id=pip" not in line


@pytest.mark.parametrize(
    ("test", "device_test", "there"), [("[a]", "[]", 1), ("[]", "[a]", 1), ("[]", "[]", 0)]
)
def test_a_stage_is_rendered_for_what_runs_on_the_runtime_image_alone(
    tmp_path: Path, test: str, device_test: str, there: int
) -> None:
    text = STACK.replace("test: [python", f"test: {test}\n    device_test: {device_test} # ")
    assert render(resolved(tmp_path, text)).count("FROM runtime AS test-") == there


def test_a_wheel_of_an_index_is_installed_by_its_hash_and_the_rest_from_the_builds_own() -> None:
    known = ResolvedPytorch(requirement="torch==2.13.0+cpu", index="https://x/whl", sha256="e" * 64)
    text = install_pytorch(known)
    assert (
        "--no-deps --index-url https://x/whl -r /dev/stdin <<< 'torch==2.13.0+cpu --hash=sha256:eeee" in text
    )
    assert text.endswith('--extra-index-url https://x/whl torch==2.13.0+cpu"]')
    assert "--hash" not in install_pytorch(replace(known, sha256=""))
    assert "-index" not in install_pytorch(ResolvedPytorch(requirement="torch==2.13.0"))


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]))))
def test_labels_tell_the_roles_and_how_each_is_verified(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    stack = resolved(tmp_path_factory.mktemp("stack"), STACK).stack
    roles = {"test": Role(command="pytest", check=tuple(words)), "serve": Role(command="vllm 'a b'")}
    stack = stack.model_copy(update={"roles": roles})
    assert roles_in({"other": "x", **labels_of(stack)}) == {"test": words, "serve": []}
    assert start_files(stack)["roles/serve"] == "exec vllm 'a b' \"$@\"\n"
    assert roles_in({f"{LABEL}test": "no 'end"}) == {"test": []}


def test_the_entry_script_has_the_ports_that_are_told(pinned: ResolvedStack) -> None:
    lines = [line.strip() for line in start_files(pinned.stack)["entry"].splitlines()]
    for name, port in PORTS.items():
        assert lines[lines.index(f"{name})") + 1] == f"port {port}"
