"""Names and tags of images that a job's pods run in."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ci.jobs.images import tag_of
from ci.jobs.parts import Image


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
