"""Whether a checkout's torch requirement and this environment's back end fit what is tested."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

import ci
from ci.record.identity import EMULATED
from ci.runner.environment_info import PACKAGE, back_end
from ci.runner.inventory import EMULATE, EMULATED_DEVICE
from test_selection.files import read_bounded

# Entry points that torch calls when it is imported: a back end registers its device there.
GROUP = "torch.backends"
_OURS = "spyre-ci"
_EXTRA = re.compile(r"\bextra\s*==\s*['\"]torch['\"]")
_FILES = ("pyproject.toml", "setup.cfg", "setup.py", "requirements.txt")
# A requirement at the start of a line or a string, in whichever of these files.
_REQUIREMENT = re.compile(r"(?:^[ \t]*|[\"'])(torch\s*[~=<>!][^\"'#;\n\]]{1,100})")


class Concern(NamedTuple):
    """Something a run can do without, and what to do about it."""

    message: str
    remedy: str


def torch_requirements() -> list[Requirement]:
    """Requirements of the extra `torch`: of the installed package, else of the checkout this code lies in."""
    try:
        listed = importlib.metadata.requires(_OURS) or []
        return [Requirement(one.partition(";")[0]) for one in listed if _EXTRA.search(one)]
    except importlib.metadata.PackageNotFoundError:
        project = Path(ci.__path__[0]).parent / "pyproject.toml"
        extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        return [Requirement(one) for one in extras["torch"]]


def torch_pin() -> str:
    """The version of torch that this spyre-ci tests; empty where it is not pinned."""
    pinned = (held for one in torch_requirements() if one.name == "torch" for held in one.specifier)
    return next((held.version for held in pinned if held.operator == "=="), "")


def torch_excluded(folder: Path, pin: str) -> list[Concern]:
    """One concern for each torch requirement of a project's files that excludes the pin.

    Args:
        folder: of the project; files that are missing or unreadable are passed over.
        pin: a version of torch; empty: nothing is excluded.
    """
    found = []
    for name in _FILES if pin else ():
        try:
            text = read_bounded(folder / name).decode("utf-8", "replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for text in _REQUIREMENT.findall(line):
                try:
                    wanted = Requirement(text.strip().rstrip(","))
                except InvalidRequirement:
                    continue
                if not wanted.specifier.contains(pin, prereleases=True):
                    found.append(_excluded(f"{name}:{number}", wanted, pin))
    return found


def _excluded(where: str, wanted: Requirement, pin: str) -> Concern:
    return Concern(
        message=f"{where} requires {wanted}, which excludes torch {pin}, the version that is tested",
        remedy=f"allow {pin} there; until then pip builds or installs the project with another torch",
    )


def back_end_missing(device: str, environ: Mapping[str, str]) -> Concern | None:
    """A concern where no installed package makes the device; None for `cpu` and where emulation is asked for.

    Args:
        device: the device's name.
        environ: may ask for the emulated device.
    """
    if device == "cpu":
        return None
    if device == EMULATED_DEVICE:
        if environ.get(EMULATE) == "1" or back_end(environ) != EMULATED:
            return None
        return Concern(
            message=f"{PACKAGE} is not installed in this environment, so tests run on the emulated device",
            remedy=f"install {PACKAGE}, or set {EMULATE}=1 to use the emulated device on purpose",
        )
    if registered_back_ends():
        return None
    return Concern(
        message=f"no package in this environment registers the device {device} with torch "
        f"(entry point {GROUP})",
        remedy="install the back end's package into this environment, or set device.name",
    )


def registered_back_ends() -> list[str]:
    """Packages that register themselves with torch."""
    return [one.value.partition(":")[0] for one in importlib.metadata.entry_points(group=GROUP)]
