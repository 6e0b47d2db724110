"""Stack files: what they may say, in which order components are built, and how mistakes are told."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, SettingsError
from ci.image.model import Role, Stack
from ci.image.stack import read_stack

TOP = """version: 1
name: runtime
base: {image: debian:bookworm}
variants: {pinned: {version: 2.13.0}}
"""
GIT = "git: {url: https://example.com/x.git, steps: [make install]}"
OWN = "git: {url: https://x/y, containerfile: b, paths: [{source: /c}]}"


def stack_of(folder: Path, text: str) -> Stack:
    path = folder / "stack.yaml"
    path.write_text(text)
    return read_stack(path)


def test_components_stand_in_the_order_they_are_built(tmp_path: Path) -> None:
    text = f"""components:
  - {{name: torch-spyre, needs: [pytorch, flex], {GIT}}}
  - {{name: flex, needs: [drivers], {GIT}}}
  - {{name: drivers, files: [packages/*.deb]}}
"""
    components = stack_of(tmp_path, TOP + text).components
    assert [one.name for one in components] == ["drivers", "flex", "torch-spyre"]


def test_steps_get_their_values_by_one_scheme_and_the_image_its_environment(tmp_path: Path) -> None:
    text = f"""args: {{JOBS: "4"}}
environment: {{LANG: C.UTF-8}}
components:
  - {{name: a, args: {{BUILD_TYPE: Release}}, environment: {{A_HOME: /opt/a, LANG: C.UTF-8}}, {GIT}}}
"""
    stack = stack_of(tmp_path, TOP + text)
    assert stack.params_of(stack.components[0]) == {"PARAM_BUILD_TYPE": "Release", "PARAM_JOBS": "4"}
    assert stack.params_of(None) == {"PARAM_JOBS": "4"}
    assert stack.whole_environment == {"A_HOME": "/opt/a", "LANG": "C.UTF-8"}


# What a component says, and what is said of it.
COMPONENTS = [
    ("platforms: [linux/s390x]", "has none of them: give exactly one of git, image and files"),
    (f"files: [x.whl], {GIT}", "has git and files: give exactly one of git, image and files"),
    (f"{GIT}}}\n  - {{name: a, {GIT}", "two components are named 'a'"),
    (f"needs: [b], {GIT}", "a needs 'b', which is not a component"),
    (f"needs: [b], {GIT}}}\n  - {{name: b, needs: [a], {GIT}", "components need each other: a > b > a"),
    ("files: [x.whl], test: [pytest]", "has tests but no `git` repository"),
    ("files: [x.whl], device_test: [pytest]", "has tests but no `git` repository"),
    (f"{GIT}, arg: {{X: y}}", "did you mean 'args'?"),
    ("files: [../x.whl]", "components.0.files.0"),
    ("files: [packages/*]", "components.0.files.0"),
    ("files: [a/../x.whl]", "leads out of its folder"),
    ("git: {url: --x, steps: [a]}", "components.0.git.url"),
    ("git: {url: https://x/y, ref: -x, steps: [a]}", "git.ref"),
    ("git: {url: https://x/y}", "has none of them: give exactly one of steps and containerfile"),
    (OWN.replace("cont", "steps: [a], cont"), "give exactly one of steps and containerfile"),
    ("git: {url: https://x/y, containerfile: b}", "`containerfile` needs `paths`"),
    ("git: {url: https://x/y, steps: [a], target: b}", "`paths` and `target` need `containerfile`"),
    (f"needs: [pytorch], {OWN}", "has `needs`, which its own Containerfile cannot use"),
    (f"test: [make test], {OWN}", "set test_on: runtime"),
    ("git: {url: 'https://me:word@x/y', steps: [a]}", "contains a user or a password"),
    (f"args: {{Y: y}}, environment: {{A: y}}, {GIT}", "a and the stack give A different values"),
    (f"args: {{X: y}}, {GIT}", "X is given by the stack already: both would be PARAM_X"),
]
# The same of the file's other keys.
OTHERS = [
    (f"components:\n  - {{name: pytorch, {GIT}}}\n", "the name pytorch is reserved"),
    ('labels: {"a=b\\nRUN touch /evil\\nLABEL c": x}\n', "labels"),
    ('environment: {A: "one\\ntwo"}\n', "environment.A"),
    ("args: {DESTDIR: x}\n", "args.DESTDIR: is set by the build itself"),
    ("args: {PARAM_X: x}\n", "args.PARAM_X: is set by the build itself"),
    ("args: {HF_TOKEN: x}\n", "HF_TOKEN: looks like a secret"),
    ("environment: {URL: 'https://me:word@example.com'}\n", "URL: contains a user or a password"),
    ("platforms: [linux/arm64]\n", "platforms.0"),
    ("user: 0\n", "user"),
    ("roles: {train: {command: python train.py}}\n", "roles.train"),
    *(
        (f'roles: {{serve: {{command: "{command}"}}}}\n', "roles.serve.command: is n")
        for command in ("a; b", "a && b", "a | b", "a &", "(a)", "a\\nb", " ", "a 'b", "cd x;ls")
    ),
]
VARIANTS = [
    ("{}", "has none of them: give exactly one of version, nightly and git"),
    ("{version: 2.13.0, nightly: true}", "has version and nightly: give exactly one"),
    ("{version: '2.13.0; rm'}", "variants.other.version"),
    ("{git: {url: https://x/y, steps: [a]}, index: https://x}", "has git and index"),
    (f"{{{OWN}}}", "has a containerfile: PyTorch is built by `steps`"),
    ("{version: 2.13.0, index: 'https://me:word@x'}", "variants.other.index"),
    ("{version: 2.13.0, index: 'https://x?token=1'}", "variants.other.index"),
    ("{nightly: true}", "other takes a wheel from an index, but the Python version is not set"),
    ("{version: 2.13.0, index: 'https://x/whl'}", "the Python version is not set"),
]
GIVEN = "args: {X: x}\nenvironment: {A: x}\ncomponents:\n  - {name: a, "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((f"{TOP}{GIVEN}{text}}}\n", said) for text, said in COMPONENTS),
        *((TOP + text, said) for text, said in OTHERS),
        *((f"{TOP.partition('variants')[0]}variants: {{other: {text}}}\n", said) for text, said in VARIANTS),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        stack_of(tmp_path, text)
    assert said in caught.value.what
    assert "me:" not in str(caught.value)
    assert re.search(r"stack\.yaml:[4-9]$", str(caught.value.where))
    assert caught.value.remedy


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such file"):
        read_stack(tmp_path / "stack.yaml")


@pytest.mark.parametrize(
    "command",
    [
        'python -m http.server "$PORT"',
        "vllm serve $MODEL --port $PORT > /tmp/log",
        "bash -c 'cd /tmp; ls | wc && exit 1'",
        'python -c "print((1))"',
    ],
)
def test_one_command_is_taken_for_a_role(command: str) -> None:
    assert Role.model_validate({"command": command}).command == command


def test_the_image_has_what_legs_in_it_need_and_no_toolkit_of_its_own() -> None:
    root = Path(__file__).parents[3]
    (part,) = read_stack(root / "images" / "stack.yaml").components
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *(one for one in extras["torch"] if not one.startswith("torch="))}
    needed = re.search(r'nox\.needs_version = "(.+)"', (root / "noxfile.py").read_text(encoding="utf-8"))
    assert needed is not None
    assert set(part.requirements) == wanted | {f"nox{needed[1]}"}
