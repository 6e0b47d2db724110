"""torch: whether it can be imported, its version against the pin, and its build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from ci.core.text import shell_line
from ci.doctor.finding import Finding, fault, ok, warning

TORCH = "torch"
PINNED = "pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFacts:
    """What an import of torch, in a process of its own, came to.

    Attributes:
        there: whether there is a torch to be imported.
        told: what it says of itself: `version`, `file`, `cuda`, `hip`, `xpu`, `git`; empty: nothing.
        why: the import failed.
        late: whether it did not end in its time.
        limit_s: that time.
        pin: the version that spyre-ci is released with, such as 2.13.0; empty: unknown.
        variant: of the settings' `image.variant`; `pinned` wants the pin.
        nox: whether there is a nox, which installs torch for itself.
        python: this environment's interpreter.
        lacking: packages that PyTorch's tests need besides, and that are not there.
    """

    there: bool
    told: Mapping[str, Any]
    why: str = ""
    late: bool = False
    limit_s: float = 0
    pin: str = ""
    variant: str = PINNED
    nox: bool = False
    python: str = "python"
    lacking: tuple[str, ...] = ()


def judge_torch(facts: TorchFacts) -> list[Finding]:
    """Whether the torch of this environment is the one a run is to test."""
    install = shell_line(
        [facts.python, "-m", "pip", "install", f"torch=={facts.pin}" if facts.pin else "spyre-ci[torch]"]
    )
    if facts.late:
        said = f"its import did not end within {facts.limit_s:g} s"
        return [warning(TORCH, said, "see what the machine is busy with (top), then look again")]
    if not facts.there:
        if facts.nox:
            said = (
                f"not in this environment; `nox -s pytorch` installs {facts.pin or 'it'} into one of its own"
            )
            return [warning(TORCH, said, install)]
        return [fault(TORCH, "not installed in this environment", install)]
    if not facts.told:
        return [fault(TORCH, f"cannot be imported: {facts.why}", f"{install} --force-reinstall")]
    found = [_of_version(facts, str(facts.told["version"]), install)]
    if facts.lacking:
        found.append(_lacking(facts))
    return found


def build_of(told: Mapping[str, Any]) -> str:
    """How a torch was built: for which accelerator, and by whom.

    A public wheel's version has no local part but `cpu`, `cu126`, `rocm6.3` or `xpu`; what somebody built
    has another one, such as `git1234abc` (pytorch's setup.py).
    """
    kinds = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
    built = [f"{title} {told[name]}" for name, title in kinds.items() if told.get(name)]
    local = str(told["version"]).partition("+")[2]
    public = local == "" or local.startswith(("cpu", "cu", "rocm", "xpu"))
    return (built[0] if built else "CPU") + ("" if public else " build of somebody's own")


def _of_version(facts: TorchFacts, version: str, install: str) -> Finding:
    commit = str(facts.told.get("git") or "")
    said = (
        f"{version}, {build_of(facts.told)}"
        + (f" at {commit:.12}" if commit else "")
        + f", {facts.told.get('file')}"
    )
    if not facts.pin or _same(version, facts.pin):
        return ok(TORCH, said + (f"; the pin is {facts.pin}" if facts.pin else "; no pin is known here"))
    if facts.variant != PINNED:
        return warning(
            TORCH,
            f"{said}; the pin is {facts.pin}, and image.variant is {facts.variant}",
            "nothing, where that is meant",
        )
    return fault(TORCH, f"{said}; the pin is {facts.pin}", install)


def _same(version: str, pin: str) -> bool:
    """Whether a torch is of the pin's release, however it was built: 2.13.0a0+git1234 is of 2.13.0."""
    try:
        return Version(version).base_version == Version(pin).base_version
    except InvalidVersion:
        return False


def _lacking(facts: TorchFacts) -> Finding:
    return fault(
        TORCH,
        f"PyTorch's tests need what is not installed: {', '.join(facts.lacking)}",
        shell_line([facts.python, "-m", "pip", "install", *facts.lacking]),
    )
