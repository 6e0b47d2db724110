"""What tests run in, as the process that runs them finds it: the planner's environment is another one.

What is installed is found out without importing it: torch takes seconds to import.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.addresses import without_secrets
from ci.core.errors import DeviceError
from ci.core.provider import detect
from ci.core.withheld import without_job_secrets
from ci.runner.back_end import back_end_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTorch:
    """torch's version and the Git SHA it was built from (empty where it does not say)."""

    version: str
    git_sha: str


def installed_torch() -> InstalledTorch:
    """The torch of this environment.

    Raises:
        DeviceError: there is none.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise DeviceError(
            "torch is not installed here",
            remedy='install it into this environment: pip install "spyre-ci[torch]", or use `nox -s pytorch`',
        )
    text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    sha = re.search(r"^git_version\b[^=]*= *'([0-9a-f]{7,40})'", text, re.MULTILINE)
    return InstalledTorch(version=importlib.metadata.version("torch"), git_sha=sha[1] if sha else "")


# Of PyTorch, the back end and its cards, libraries that compute, Python and the C library.
_NAMES = re.compile(
    r"(PYTORCH|TORCH|ATEN|SPYRE|AIU|DT|FLEX|SENLIB|DEEPTOOLS|OMP|GOMP|KMP|MKL|OPENBLAS|THP|CUBLAS|NVIDIA"
    r"|CUDA|HIP|PCIDEVICE|MALLOC|PYTHON)_?[A-Z0-9_]*|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_PRELOAD"
)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE|SIGN|PRIVATE|WEBHOOK|ENDPOINT", re.IGNORECASE
)
# Of the toolkit's own, all but what says how tests are run is for others to know.
_OURS = "SPYRE_CI_"
MOST = 200
LONGEST = 1000


def recorded(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by name that may matter, in order; nothing secret, and no address with a secret in it.

    Args:
        environ: of a worker.
    """
    names = [
        name
        for name in sorted(without_job_secrets(environ))
        if _NAMES.fullmatch(name) and not _SECRET.search(name) and not name.startswith(_OURS)
    ]
    return {name: without_secrets(environ[name])[:LONGEST] for name in names[:MOST]}


def ran_in_here(environ: Mapping[str, str], device: str) -> dict[str, Any]:
    """Back end, torch, image, Python and variables of this process, for its journal.

    Args:
        environ: the environment; only it can say the image.
        device: the device's name, which is all there is to say of any but `spyre`.
    """
    try:
        torch = installed_torch().version
    except DeviceError:  # the tests will say so
        torch = ""
    return {
        "back_end": back_end_of(device, environ),
        "torch": torch,
        "image": detect(environ, epoch_s=1).image,
        "python": platform.python_version(),
        "environ": recorded(environ),
    }
