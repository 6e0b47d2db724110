"""Facts of torch, which is imported in a process of its own and nowhere else."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement

from ci.core.withheld import without_job_secrets
from ci.doctor.finding import Finding
from ci.doctor.judge.pytorch import TorchFacts, judge_torch
from ci.doctor.look.basics import nox_command
from ci.doctor.world import ALONE_S, CODE, World, ask

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
            lacking=tuple(one for one in _others(required) if importlib.util.find_spec(one) is None),
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


def _others(required: Iterable[Requirement]) -> list[str]:
    return [one.name for one in required if one.name != "torch"]
