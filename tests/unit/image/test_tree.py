"""The test tree of an image: where its labels say its PyTorch is from, and what a folder may hold already."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import BadFileError, FileSystemError
from ci.image.containerfile import COMMIT_LABEL, URL_LABEL
from ci.image.tree import PYTORCH_URL, Origin, origin_of, put_tree
from ci.runner.checkout import COMMIT_FILE

from .stacks import COMMIT


def test_labels_tell_where_an_image_is_from() -> None:
    labels = {COMMIT_LABEL: COMMIT}
    assert origin_of(labels, "x") == Origin(url=PYTORCH_URL, commit=COMMIT)
    fork = {**labels, URL_LABEL: "https://example.com/fork.git"}
    assert origin_of(fork, "x").url == "https://example.com/fork.git"
    assert origin_of(fork, "x", url="https://mirror/x.git").url == "https://mirror/x.git"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, f"its label {COMMIT_LABEL} is ''"),
        ({COMMIT_LABEL: "--upload-pack=x"}, "is '--upload-pack=x'"),
        ({COMMIT_LABEL: COMMIT, URL_LABEL: "ext::sh -c id"}, f"its label {URL_LABEL} is not a repository"),
    ],
)
def test_labels_that_tell_nothing_are_refused(labels: dict[str, str], said: str) -> None:
    with pytest.raises(BadFileError, match="x: ") as caught:
        origin_of(labels, "x")
    assert said in caught.value.what


def test_a_tree_that_is_there_is_left_and_anything_else_is_refused(tmp_path: Path) -> None:
    lines: list[str] = []
    origin = Origin(url="file:///nowhere", commit=COMMIT)
    folder = tmp_path / "tree"
    folder.mkdir()
    mark = folder / COMMIT_FILE
    mark.write_text(f"{COMMIT}\n")
    put_tree(origin, folder, environ={}, echo=lines.append)
    assert lines == [f"{folder} is PyTorch {COMMIT} already"]
    for text, said in (("b" * 40, "contains " + "b" * 40), ("what", "contains something else")):
        mark.write_text(text)
        with pytest.raises(FileSystemError, match=said):
            put_tree(origin, folder, environ={}, echo=lines.append)
    with pytest.raises(FileSystemError, match="contains something else"):
        put_tree(origin, mark, environ={}, echo=lines.append)
    assert [path.name for path in tmp_path.rglob("*")] == ["tree", COMMIT_FILE]
