"""What an engine can build for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest

from ci.core.errors import UsageError
from ci.image.engine import check_platform


def engine_of(**said: Any) -> docker.DockerClient:
    return cast(
        "docker.DockerClient",
        SimpleNamespace(version=lambda: said, api=SimpleNamespace(base_url="http+docker://localhost")),
    )


@pytest.mark.parametrize("architecture", ["amd64", "x86_64"])
def test_its_own_platform_is_taken(architecture: str) -> None:
    check_platform(engine_of(Os="linux", Arch=architecture), "linux/amd64")


def test_another_platform_is_refused_with_both_names() -> None:
    with pytest.raises(UsageError) as caught:
        check_platform(engine_of(Os="linux", Arch="amd64"), "linux/s390x")
    assert caught.value.what == "this engine builds for linux/amd64, and not for linux/s390x"
    assert "a machine of linux/s390x" in str(caught.value.remedy)


def test_on_macos_none_is_built_and_what_to_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError) as caught:
        check_platform(engine_of(Os="linux", Arch="amd64"), "linux/amd64")
    assert caught.value.what.endswith("on macOS the engine is in a virtual machine")
    assert "build on a machine of linux/amd64" in str(caught.value.remedy)


def test_an_engine_elsewhere_is_refused() -> None:
    client = engine_of(Os="linux", Arch="amd64")
    client.api.base_url = "http://10.0.0.1:2375"
    with pytest.raises(UsageError, match="this engine is on another machine"):
        check_platform(client, "linux/amd64")
