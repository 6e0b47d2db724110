"""PyTorch's wheels of an index: looked up exactly, installed as they are, and asked for their commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.image.containerfile import COMMIT_LABEL

from .conftest import World, wheel

pytestmark = pytest.mark.nightly

OCTOBER, NOVEMBER = "2.14.0.dev20261031+cpu", "2.14.0.dev20261101+cpu"


def torch(version: str, git_version: str | None) -> str:
    return f"__version__ = {version!r}\n\nclass version:\n    git_version = {git_version!r}\n"


def shelf(world: World) -> Path:
    """The folder of the index of nightly wheels."""
    return world.folder.parent / "index" / "nightly" / "torch"


def use(world: World, variant: str, *, python: str = "3.11") -> None:
    """Let the stack have a variant `main`, and say its Python."""
    world.edit("packages: [python3-venv]", f'packages: [python3-venv], python_version: "{python}"')
    world.edit("variants: {", f"variants: {{main: {variant}, ")


def nightly(world: World) -> str:
    return f"{{nightly: true, index: '{world.index}/nightly'}}"


def build(*words: str) -> tuple[str, ...]:
    return ("build", "--variant", "main", *words)


def test_a_nightly_is_taken_exactly_told_by_its_commit_and_found_again(world: World) -> None:
    for version, commit in ((OCTOBER, "a" * 40), (NOVEMBER, "b" * 40)):
        wheel(shelf(world), "torch", version, torch(version, commit), needs="senlib==1.0")
    wheel(shelf(world).parent.parent / "senlib", "senlib", "1.0", "answer = 42\n")
    use(world, nightly(world))
    shown = world.shown("--variant", "main")
    assert shown["pytorch"] == f"torch=={NOVEMBER}"
    assert f"torch=={NOVEMBER} --hash=sha256:" in shown["containerfile"]
    first = world.made(*build("--push"))
    assert first["image"].endswith(f":{shown['tag']}")
    assert world.client.images.get(first["image"]).labels[COMMIT_LABEL] == "b" * 40
    said = world.run_in(first["image"], "python", "-c", "import torch; print(torch.__version__)")
    assert said.strip() == NOVEMBER
    assert world.made(*build("--push")) == {**first, "found": True}

    later = "2.14.0.dev20261102+cpu"
    wheel(shelf(world), "torch", later, torch(later, "c" * 40))
    second = world.made(*build("--push"))
    assert second["image"] != first["image"]
    assert world.client.images.get(second["image"]).labels[COMMIT_LABEL] == "c" * 40


@pytest.mark.soak
def test_a_release_has_its_local_part_and_another_file_by_its_name_is_another_image(world: World) -> None:
    wheel(shelf(world), "torch", "2.13.0+cpu", torch("2.13.0+cpu", "d" * 40))
    wheel(shelf(world), "torch", OCTOBER, torch(OCTOBER, "a" * 40))
    use(world, f"{{version: 2.13.0, index: '{world.index}/nightly'}}")
    shown = world.shown("--variant", "main")
    assert "torch==2.13.0+cpu --hash=sha256:" in shown["containerfile"]
    assert "2.14.0" not in shown["containerfile"]
    wheel(shelf(world), "torch", "2.13.0+cpu", torch("2.13.0+cpu", "b" * 40))
    assert world.shown("--variant", "main")["tag"] != shown["tag"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("{nightly: true, index: 'http://127.0.0.1:1/nightly'}", "pip cannot look up torch"),
        (
            "{nightly: true, index: 'INDEX/nowhere'}",
            "has no wheel of torch for Python 3.11 on linux/amd64: it",
        ),
        (
            "{version: 2.99.0, index: 'INDEX/nightly'}",
            f"has no torch 2.99.0 for Python 3.11 on linux/amd64: it has {OCTOBER}",
        ),
        ("{nightly: true, index: 'INDEX/others'}", "it has none for this Python and platform"),
    ],
)
def test_a_wheel_that_is_not_to_be_had_is_said(world: World, variant: str, said: str) -> None:
    wheel(shelf(world), "torch", OCTOBER, torch(OCTOBER, "a" * 40))
    others = shelf(world).parent.parent / "others" / "torch"
    for tag in ("cp311-cp311-manylinux_2_28_s390x", "cp312-cp312-manylinux_2_28_x86_64"):
        wheel(others, "torch", OCTOBER, torch(OCTOBER, "a" * 40), tag=tag)
    use(world, variant.replace("INDEX", world.index))
    result = world.image(*build(), code=2)
    assert said in result.output
    assert "remedy" in result.output.lower()


@pytest.mark.soak
def test_a_base_with_another_python_is_said(world: World) -> None:
    wheel(shelf(world), "torch", OCTOBER, torch(OCTOBER, "a" * 40))
    use(world, nightly(world), python="3.12")
    result = world.image(*build(), code=1)
    assert "the base has Python 3.11, and base.python_version is 3.12" in result.output


@pytest.mark.soak
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (torch(OCTOBER, "Unknown"), "torch.version.git_version is 'Unknown'"),
        ("import nothing\n", "torch.version.git_version is '': import torch ended with code 1"),
    ],
)
def test_an_image_whose_torch_tells_no_commit_is_refused(world: World, code: str, said: str) -> None:
    wheel(shelf(world), "torch", OCTOBER, code)
    use(world, nightly(world))
    shown = world.shown("--variant", "main")
    result = world.image(*build("--push", "--tag", "nightly"), code=2)
    assert said in result.output
    for tag in (shown["tag"], "nightly"):
        assert world.digest(tag) is None
        assert not any(f"{world.name}:{tag}" in (one["RepoTags"] or ()) for one in world.client.api.images())
