"""Stack files: what they may say, in which order components are built, and how mistakes are told."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, SettingsError
from ci.image.stack import environment_of, params_of, read_stack

TOP = """version: 1
name: runtime
base: {image: debian:bookworm}
variants: {pinned: {version: 2.13.0}}
"""
GIT = "git: {url: https://example.com/x.git, steps: [make install]}"
OWN = "git: {url: https://x/y, containerfile: b, paths: [{source: /c}]}"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "stack.yaml"
        path.write_text(TOP + text)
        return path

    return written


def test_components_stand_in_the_order_they_are_built(write: Write) -> None:
    stack = read_stack(
        write(f"""components:
  - {{name: torch-spyre, needs: [pytorch, flex], {GIT}}}
  - {{name: flex, needs: [drivers], {GIT}}}
  - {{name: drivers, files: [packages/*.deb]}}
""")
    )
    assert [one.name for one in stack.components] == ["drivers", "flex", "torch-spyre"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("components:\n  - {name: a}\n", 6, "none of them: give exactly one of git, image and files"),
        (
            f"components:\n  - {{name: a, files: [x.whl], {GIT}}}\n",
            6,
            "git and files: give exactly one of git, image and files",
        ),
        (f"components:\n  - {{name: a, {GIT}}}\n  - {{name: a, {GIT}}}\n", 7, "two components are named 'a'"),
        (f"components:\n  - {{name: a, needs: [b], {GIT}}}\n", 6, "a needs 'b', which is none"),
        (
            f"components:\n  - {{name: a, needs: [b], {GIT}}}\n  - {{name: b, needs: [a], {GIT}}}\n",
            5,
            "components need each other: a > b > a",
        ),
        (f"components:\n  - {{name: pytorch, {GIT}}}\n", 6, "the name pytorch is PyTorch's"),
        ("components:\n  - {name: a, files: [x.whl], test: [pytest]}\n", 6, "has tests and no repository"),
        (f"components:\n  - {{name: a, {GIT}, arg: {{X: y}}}}\n", 6, "did you mean 'args'?"),
        ("components:\n  - {name: a, files: [../x.whl]}\n", 6, "components.0.files.0"),
        ("components:\n  - {name: a, git: {url: --x, steps: [a]}}\n", 6, "components.0.git.url"),
        ("components:\n  - {name: a, git: {url: https://x/y, ref: -x, steps: [a]}}\n", 6, "git.ref"),
        (
            "components:\n  - {name: a, git: {url: https://x/y}}\n",
            6,
            "neither of them: give exactly one of steps",
        ),
        (
            f"components:\n  - {{name: a, {OWN.replace('cont', 'steps: [a], cont')}}}\n",
            6,
            "steps and containerfile: give exactly one of steps and containerfile",
        ),
        ("components:\n  - {name: a, git: {url: https://x/y, containerfile: b}}\n", 6, "needs `paths` with"),
        (
            "components:\n  - {name: a, git: {url: https://x/y, steps: [a], target: b}}\n",
            6,
            "`paths` and `target` go with nothing else",
        ),
        (
            f"components:\n  - {{name: a, needs: [pytorch], {OWN}}}\n",
            6,
            "has `needs`, which a Containerfile of its own cannot be given",
        ),
        (
            f"components:\n  - {{name: a, test: [make test], {OWN}}}\n",
            6,
            "say test_on: runtime",
        ),
        (
            "components:\n  - {name: a, git: {url: 'https://me:word@x/y', steps: [a]}}\n",
            6,
            "holds a user or a password",
        ),
        ('labels: {"a=b\\nRUN touch /evil\\nLABEL c": x}\n', 5, "labels"),
        ('environment: {A: "one\\ntwo"}\n', 5, "environment.A"),
        ("args: {DESTDIR: x}\n", 5, "DESTDIR is given by the build itself"),
        ("args: {PARAM_X: x}\n", 5, "PARAM_X is given by the build itself"),
        (
            f"args: {{X: x}}\ncomponents:\n  - {{name: a, args: {{X: y}}, {GIT}}}\n",
            7,
            "both would be PARAM_X",
        ),
        ("args: {HF_TOKEN: x}\n", 5, "HF_TOKEN looks like a secret"),
        ("environment: {URL: 'https://me:word@example.com'}\n", 5, "URL looks like a secret"),
        (
            f"environment: {{A: x}}\ncomponents:\n  - {{name: a, environment: {{A: y}}, {GIT}}}\n",
            7,
            "a and the stack give A different values",
        ),
        ("platforms: [linux/arm64]\n", 5, "platforms.0"),
        ("user: 0\n", 5, "user"),
    ],
)
def test_a_mistake_is_told_with_its_place(write: Write, text: str, line: int, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_stack(write(text))
    assert said in caught.value.what
    assert "me:" not in str(caught.value)
    assert str(caught.value.where).endswith(f"stack.yaml:{line}")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("{}", "has none of them: give exactly one of version, nightly and git"),
        ("{version: 2.13.0, nightly: true}", "has version and nightly: give exactly one"),
        ("{version: '2.13.0; rm'}", "variants.pinned.version"),
    ],
)
def test_a_variant_says_which_pytorch_in_one_way(tmp_path: Path, variant: str, said: str) -> None:
    path = tmp_path / "stack.yaml"
    path.write_text(TOP.replace("{version: 2.13.0}", variant))
    with pytest.raises(SettingsError, match=said):
        read_stack(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        read_stack(tmp_path / "stack.yaml")


def test_steps_get_their_values_by_one_scheme_and_the_image_its_environment(write: Write) -> None:
    stack = read_stack(
        write(f"""args: {{JOBS: "4"}}
environment: {{LANG: C.UTF-8}}
components:
  - {{name: a, args: {{BUILD_TYPE: Release}}, environment: {{A_HOME: /opt/a, LANG: C.UTF-8}}, {GIT}}}
""")
    )
    assert params_of(stack, stack.components[0]) == {"PARAM_BUILD_TYPE": "Release", "PARAM_JOBS": "4"}
    assert environment_of(stack) == {"A_HOME": "/opt/a", "LANG": "C.UTF-8"}


def test_the_image_has_what_legs_in_it_need_and_no_toolkit_of_its_own() -> None:
    root = Path(__file__).parents[3]
    (part,) = read_stack(root / "images" / "stack.yaml").components
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *(one for one in extras["torch"] if not one.startswith("torch="))}
    # Of what checks packages, what device tests import.
    wanted |= {one for one in extras["package"] if one.startswith(("packaging", "tomlkit"))}
    needed = re.search(r'nox\.needs_version = "(.+)"', (root / "noxfile.py").read_text(encoding="utf-8"))
    assert needed is not None
    assert set(part.requirements) == wanted | {f"nox{needed[1]}"}
