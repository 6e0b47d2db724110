from __future__ import annotations

from pathlib import Path

import pytest

from ci.main_job.run import other_torch
from ci.runner.source import Source, op_suite


@pytest.mark.parametrize(
    ("tree", "installed", "told"),
    [
        ("2.13.0", "2.13.0+cpu", False),
        ("2.14.0a0", "2.14.0.dev20260101+cpu", False),
        ("", "2.13.0", False),
        ("2.14.0a0", "2.13.0+cpu", True),
        ("of no number", "2.13.0", True),
    ],
)
def test_a_tree_of_another_release_than_torch_is_told(tree: str, installed: str, told: bool) -> None:
    source = Source(where="x", tests=Path("x"), version=tree, sha="")
    said = other_torch(source, installed)
    assert bool(said) is told
    assert "\n" not in said
    if told:
        assert said.startswith(f"the tests are from PyTorch {tree}, and torch here is {installed}")


def test_the_embedded_suite_is_of_whatever_torch_there_is() -> None:
    assert other_torch(op_suite("cf30153c4c13"), "2.13.0+cpu") == ""
