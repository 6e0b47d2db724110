"""PyTorch built from its repository: once a commit, given the compiler cache of the builds before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.image.containerfile import COMMIT_LABEL, URL_LABEL
from ci.runner.source import fetch
from tests.calls import Said

from .conftest import World

pytestmark = pytest.mark.nightly

# Makes a wheel as PyTorch's build does: with the commit that Git tells, and objects that a cache may have.
BUILD = """
import os, pathlib, subprocess, zipfile
commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
version = pathlib.Path("version.txt").read_text().strip() + "+git" + commit[:7]
cache, made = pathlib.Path(os.environ["CCACHE_DIR"]), 0
for source in pathlib.Path("torch/csrc").iterdir():
    if not (cache / source.name).exists():
        (cache / source.name).write_text("object")
        made += 1
print("compiled", made, "with", os.environ["PARAM_JOBS"], "jobs")
name = f"{os.environ['WHEELS']}/torch-{version}-py3-none-any.whl"
with zipfile.ZipFile(name, "w") as packed:
    info = f"torch-{version}.dist-info"
    packed.writestr("torch/__init__.py", pathlib.Path("torch/__init__.py").read_text())
    packed.writestr("torch/version.py", f"git_version, __version__ = {commit!r}, {version!r}\\n")
    packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: torch\\nVersion: {version}\\n")
    packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    packed.writestr(f"{info}/RECORD", "")
"""
FILES = {
    "version.txt": "2.15.0a0\n",
    "build.py": BUILD,
    "torch/__init__.py": "from torch import version\nfrom torch.version import __version__\n",
    "torch/csrc/a.cpp": "a\n",
    "torch/csrc/b.cpp": "b\n",
    "torch/testing/__init__.py": "",
    "test/test_ops.py": "def test_one():\n    pass\n",
    "tools/lint.py": "",
}


@pytest.fixture
def pytorch(world: World) -> World:
    """PyTorch's repository, and a stack that builds it."""
    repository = world.folder.parent / "pytorch"
    repository.mkdir()
    made = replace(world, repository=repository)
    made.git("init", "-q", "-b", "main")
    made.commit(FILES)
    made.edit("packages: [python3-venv]", "packages: [python3-venv], build_packages: [git]")
    main = f"main: {{git: {{url: 'file://{repository}', steps: [python build.py]}}}}"
    made.edit("variants: {", f"variants: {{{main}, ")
    made.edit("version: 1\n", 'version: 1\nargs: {JOBS: "2"}\n')
    return made


def build(world: World, *words: str, code: int = 0) -> Said:
    return world.image("build", "--variant", "main", "--json", *words, code=code)


def labels(world: World, result: Said) -> dict[str, str]:
    told: dict[str, str] = world.client.images.get(result.json["image"]).labels
    return told


def test_a_commit_is_built_once_and_the_next_with_its_cache(pytorch: World) -> None:
    commit = pytorch.git("rev-parse", "HEAD")
    first = build(pytorch, "--push")
    assert labels(pytorch, first)[COMMIT_LABEL] == commit
    assert labels(pytorch, first)[URL_LABEL] == f"file://{pytorch.repository}"
    assert "compiled 2 with 2 jobs" in first.err
    script = "python -c 'import torch; print(torch.version.git_version)'"
    said = pytorch.run_in(first.json["image"], "sh", "-c", script)
    assert said.startswith(commit)

    # Another component changed.
    replace(pytorch, repository=pytorch.folder.parent / "flex").commit({"flex.txt": "two\n"})
    second = build(pytorch, "--push")
    assert second.json["image"] != first.json["image"]
    assert "compiled" not in second.err

    later = pytorch.commit({"torch/csrc/c.cpp": "c\n"})
    third = build(pytorch, "--push")
    assert "compiled 1 with 2 jobs" in third.err
    assert labels(pytorch, third)[COMMIT_LABEL] == later


@pytest.mark.soak
@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("[exit 3]", "a step ended with code 3"),
        ('["true"]', "the steps put 0 wheels of torch into $WHEELS, and not one"),
        (
            "[sed -i 's/^commit = .*/commit = 40 * \"e\"/' build.py, python build.py]",
            f"torch: 2.15.0a0+giteeeeeee at {'e' * 40}, not ",
        ),
    ],
)
def test_a_pytorch_that_cannot_be_built_is_said_and_nothing_is_pushed(
    pytorch: World, steps: str, said: str
) -> None:
    pytorch.edit("[python build.py]", steps)
    shown = pytorch.shown("--variant", "main")
    assert said in build(pytorch, "--push", code=1).output
    assert pytorch.digest(shown["tag"]) is None


@pytest.mark.soak
def test_the_tree_of_an_image_is_that_of_its_commit(pytorch: World, tmp_path: Path) -> None:
    commit = pytorch.git("rev-parse", "HEAD")
    image = build(pytorch, "--push").json["image"]
    pytorch.commit({"test/test_ops.py": "later\n"})
    pytorch.forget()
    tree = tmp_path / "trees" / "pytorch"
    told = pytorch.made("tree", image, str(tree))
    del told["schema"]
    assert told == {"commit": commit, "url": f"file://{pytorch.repository}", "folder": str(tree)}
    assert (tree / "test" / "test_ops.py").read_text() == FILES["test/test_ops.py"]
    assert (tree / "version.txt").is_file()
    assert (tree / "torch" / "testing").is_dir()
    assert not (tree / "torch" / "csrc").exists()
    assert not (tree / ".git").exists()
    assert [path.name for path in tree.parent.iterdir()] == ["pytorch"]
    # What the main job makes of it.
    source = fetch(str(tree), tmp_path / "cache")
    assert (source.sha, source.version) == (commit, "2.15.0a0")

    again = pytorch.image("tree", image, str(tree))
    assert again.out.strip() == commit
    assert f"is PyTorch {commit} already" in again.output

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refused = pytorch.image("tree", image, str(tmp_path / "full"), code=2)
    assert "contains something else, and is not overwritten" in refused.output
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]

    url = f"file://{tmp_path}/nowhere"
    nowhere = pytorch.image("tree", image, str(tmp_path / "new"), SPYRE_CI__IMAGE__PYTORCH_URL=url, code=2)
    assert f"check that {url} can be reached and has {commit}" in nowhere.output
    assert not (tmp_path / "new").exists()


@pytest.mark.soak
def test_an_image_that_does_not_say_its_pytorch_has_no_tree(world: World, tmp_path: Path) -> None:
    for image, said in (
        (f"drivers-{world.run}:1", f"does not say which PyTorch it has: its label {COMMIT_LABEL} is ''"),
        (f"nothing-{world.run}:1", "there is no image"),
    ):
        assert said in world.image("tree", f"{world.registry}/{image}", str(tmp_path / "tree"), code=2).output
    away = world.image("tree", "127.0.0.1:1/nothing:1", str(tmp_path / "tree"), code=2)
    assert "127.0.0.1:1" in away.output
    assert not (tmp_path / "tree").exists()
