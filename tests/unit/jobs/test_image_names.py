"""Names and tags of images that a job's pods run in."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ci.jobs.images import repository_of, tag_of
from ci.jobs.parts import Image


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("quay.io/spyre/runtime:1", "quay.io/spyre/runtime"),
        ("localhost:5000/runtime", "localhost:5000/runtime"),
        ("runtime:1", "runtime"),
    ],
)
def test_a_port_is_no_tag(name: str, repository: str) -> None:
    assert repository_of(name) == repository


def test_a_tag_is_of_what_is_built_and_by_which_file() -> None:
    tags = {
        tag_of("git", "a", "Containerfile"),
        tag_of("git", "b", "Containerfile"),
        tag_of("git", "a", "docker/Containerfile"),
        tag_of("folder", "a", "Containerfile"),
    }
    assert len(tags) == 4
    assert tag_of("git", "a", "Containerfile") in tags


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    git = {"url": "https://me:pw1234@example.com/x.git", "ref": "main", "to": "quay.io/spyre/x"}
    with pytest.raises(ValidationError, match="holds a user or a password") as caught:
        Image.model_validate({"git": git})
    assert "a saved spec would tell" in str(caught.value)
