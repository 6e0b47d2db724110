"""A process that asks the container engine, and the registry through it; both may hang, or start helpers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

TIMEOUT_S = 10
# Nobody pushes one of this name; whether the registry answers is what is asked.
TAG = "spyre-ci-doctor"


def main(arguments: Sequence[str]) -> None:
    """Print what was found as a JSON object.

    Args:
        arguments: the repository that is pushed to; empty where none is named.
    """
    (repository,) = arguments
    sys.stdout.write(json.dumps(asked(repository)) + "\n")


def asked(repository: str) -> dict[str, Any]:
    """What the engine says of itself, and what the registry answers."""
    from ci.core.errors import SpyreCiError  # noqa: PLC0415  # after the process has begun, so that it can be told

    try:
        from ci.image.engine import engine, is_podman  # noqa: PLC0415  # wants docker's SDK
        from ci.image.registry import find_digest  # noqa: PLC0415  # the same
    except ModuleNotFoundError as error:
        return {"lacks": error.name}
    try:
        with engine(os.environ, timeout_s=TIMEOUT_S) as client:
            info = client.info()
            found: dict[str, Any] = {
                "version": str(client.version().get("Version", "")),
                "podman": is_podman(client),
                "driver": str(info.get("Driver", "")),
                "root": str(info.get("DockerRootDir", "")),
                "platform": f"{info.get('OSType', '')}/{info.get('Architecture', '')}",
            }
            if repository:
                found["registry"] = _registry(lambda: find_digest(client, f"{repository}:{TAG}"))
            return found
    except SpyreCiError as error:
        return {
            "error": error.what,
            "remedy": error.remedy or "",
            "denied": "Permission denied" in str(error.__cause__),
        }


def _registry(ask: Any) -> dict[str, str]:
    from ci.core.errors import SpyreCiError  # noqa: PLC0415  # as above

    try:
        ask()
    except SpyreCiError as error:
        return {"error": error.what, "remedy": error.remedy or ""}
    return {}
