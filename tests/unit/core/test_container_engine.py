"""What an engine answers, as the user's errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import docker
import pytest
import requests
from docker.errors import APIError, NullResource

from ci.core.container_engine import fetch
from ci.core.errors import UsageError


def answered(status: int) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError("invalid reference format", response=response)


@pytest.mark.parametrize(("name", "error"), [("", NullResource("none")), ("a b", answered(400))])
def test_what_is_no_name_of_an_image_is_told(name: str, error: Exception) -> None:
    def get(_: str) -> None:
        raise error

    client = cast("docker.DockerClient", SimpleNamespace(images=SimpleNamespace(get=get)))
    with pytest.raises(UsageError, match=f"{name!r} is no name of an image") as caught:
        fetch(client, name)
    assert caught.value.remedy == "write registry/repository:tag, or an id"
