"""What is looked at in a process of its own: libraries that may hang there, or start what they like."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ci.core.errors import CommandError, SpyreCiError

ENGINE_S, CLUSTER_S = 10, 6.0
# No image has this tag; whether the registry answers is what matters.
TAG = "spyre-ci-doctor"
# Without these a submit fails; `spyre-ci job validate` asks for all rights.
WANTED = ("create jobs", "create configmaps", "list pods", "get pods/log")


def main(arguments: Sequence[str]) -> None:
    """Print what a probe finds as a JSON object; the first argument is its name."""
    probes: list[Callable[..., dict[str, Any]]] = [torch, engine, registry, cluster, card]
    name, *rest = arguments
    (probe,) = (one for one in probes if one.__name__ == name)
    sys.stdout.write(json.dumps(probe(*rest)) + "\n")


def torch() -> dict[str, Any]:
    """The torch of this environment: its version, what it is built for, and where it is."""
    import torch  # noqa: PLC0415  # takes seconds

    kinds = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
    built = [f"{title} {one}" for name, title in kinds.items() if (one := getattr(torch.version, name, None))]
    return {"version": str(torch.__version__), "build": (built or ["CPU"])[0], "file": str(torch.__file__)}


def engine() -> dict[str, Any]:
    """What the container engine says of itself."""
    from ci.core.container_engine import engine as connect  # noqa: PLC0415  # its library may be missing
    from ci.core.container_engine import is_podman  # noqa: PLC0415  # the same

    try:
        with connect(os.environ, timeout_s=ENGINE_S) as client:
            info, version = client.info(), client.version().get("Version", "")
            return {
                "name": f"{'podman' if is_podman(client) else 'docker'} {version}",
                "driver": str(info.get("Driver", "")),
                "root": str(info.get("DockerRootDir", "")),
                "platform": f"{info.get('OSType', '')}/{info.get('Architecture', '')}",
            }
    except SpyreCiError as error:
        cause = str(error.__cause__)
        return _told(error) | {"denied": "Permission denied" in cause, "hangs": "timed out" in cause}


def registry(repository: str) -> dict[str, Any]:
    """Why a repository's registry does not answer; nothing where it does."""
    from ci.core.registry import find_digest  # noqa: PLC0415  # its library may be missing

    try:
        find_digest(f"{repository}:{TAG}")
    except SpyreCiError as error:
        return _told(error)
    return {}


def cluster() -> dict[str, Any]:
    """The cluster's version, the namespace, and which rights are missing there."""
    try:
        from ci.jobs.cluster import open_cluster  # noqa: PLC0415  # its library may be missing
        from ci.jobs.validate import RIGHTS  # noqa: PLC0415  # the same
    except ModuleNotFoundError as error:
        message = f"the package {error.name} is not installed"
        return {"error": message, "remedy": "pip install 'spyre-ci[jobs]'", "lacks": True}
    try:
        there = open_cluster(os.environ, patience_s=CLUSTER_S)
        version = there.version().get("gitVersion", "")
        missing = [str(one) for one in RIGHTS if str(one) in WANTED and not one.is_had(there)]
    except SpyreCiError as error:
        return _told(error) | {"error": error.placed, "lacks": isinstance(error, CommandError)}
    return {"name": f"{version}, namespace {there.namespace}", "missing": missing}


def card(device: str) -> dict[str, Any]:
    """Whether the card of this process's environment computes: why not, or an empty text."""
    from ci.core.other_processes import die_with_parent  # noqa: PLC0415  # of the runner, which others do without
    from ci.runner.preflight import check_card  # noqa: PLC0415  # the same
    from ci.runner.prepared_parent import import_torch, single_thread  # noqa: PLC0415  # the same

    # The lease is the parent's, and ends with it.
    die_with_parent(os.getppid())
    single_thread(os.environ)
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        import_torch(device, machinery=False)
        code = check_card({"device": device})
    lines = stderr.getvalue().strip().splitlines() or ["it computes wrong results"]
    return {"why": lines[-1] if code else ""}


def _told(error: SpyreCiError) -> dict[str, Any]:
    return {"error": error.what, "remedy": error.remedy or ""}
