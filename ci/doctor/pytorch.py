"""Check torch: whether it can be imported, its version against the pin, and its build.

It is imported in a process of its own and nowhere else.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from ci.core.text import shell_line
from ci.core.withheld import without_job_secrets
from ci.doctor.basics import nox_command
from ci.doctor.finding import Finding, fault, ok, warning
from ci.doctor.world import ALONE_S, CODE, World, ask

TORCH = "torch"
PINNED = "pinned"
LIMIT_S = 26.0
NAME = "spyre-ci"
EXTRA = re.compile(r"\bextra\s*==\s*['\"]torch['\"]")
# `-P` beside it: a torch.py of the folder one is in is not torch. Back ends are left alone: loading one may
# open a card that somebody else has.
_CODE = """
import json, signal, sys
signal.alarm(int(sys.argv[1]))
import torch
version = torch.version
print(json.dumps({
    "version": str(torch.__version__), "file": str(torch.__file__),
    "git": getattr(version, "git_version", None),
    **{name: getattr(version, name, None) for name in ("cuda", "hip", "xpu")},
}))
"""
ALONE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}


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


def look_torch(world: World) -> list[Finding]:
    """The torch of this environment."""
    required = torch_requirements()
    environ = {**without_job_secrets(world.environ), **ALONE}
    told = ask(world, [sys.executable, "-P", "-c", _CODE, str(ALONE_S)], environ, limit_s=LIMIT_S)
    return judge_torch(
        TorchFacts(
            there="No module named 'torch'" not in told.why,
            told=told.row,
            why=told.why,
            late=told.late,
            limit_s=LIMIT_S,
            pin=pin_of(required),
            variant=world.settings.model.image.variant,
            nox=bool(nox_command(world)),
            python=sys.executable,
            lacking=tuple(
                one.name
                for one in required
                if one.name != "torch" and importlib.util.find_spec(one.name) is None
            ),
        )
    )


def torch_requirements() -> list[Requirement]:
    """What the extra `torch` asks for: of the installed package, else of the checkout this code lies in."""
    try:
        texts = [
            one.partition(";")[0] for one in importlib.metadata.requires(NAME) or [] if EXTRA.search(one)
        ]
    except importlib.metadata.PackageNotFoundError:
        texts = _of_checkout()
    found = []
    for text in texts:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:
            continue
    return found


def pin_of(required: Iterable[Requirement]) -> str:
    """The version that torch is held at; empty where it is not."""
    for one in required:
        for held in one.specifier if one.name == "torch" else ():
            if held.operator == "==":
                return held.version
    return ""


def _of_checkout() -> list[str]:
    try:
        project = tomllib.loads((CODE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return list(project["optional-dependencies"]["torch"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
