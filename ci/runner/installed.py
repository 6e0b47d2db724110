"""What is installed, found out without importing it: torch takes seconds to import."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import DeviceError


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
