"""Check this environment: Python, nox, torch, and whether pip finds the torch that is pinned."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ci.core.text import counted, last_line, plain, shell_line
from ci.core.withheld import without_job_secrets
from ci.doctor.finding import Finding, Level, fault, ok, warning
from ci.doctor.machine import Machine
from ci.runner.compatibility import torch_excluded, torch_pin, torch_requirements

NOX_S, TORCH_S, PIP_S = 15.0, 26.0, 20.0
_OLDEST = "3.11"
_NEEDS_NOX = re.compile(r"^nox\.needs_version *= *[\"']([^\"']{1,100})[\"']", re.MULTILINE)
_PYTORCH_SESSION = re.compile(r"^def pytorch\b", re.MULTILINE)
_VERSION = re.compile(r"^\d+(?:\.\w+)+$", re.MULTILINE)
_AVAILABLE, _AWAY = "Available versions: ", "Could not fetch URL "
# With the page that it stands on, where it is one of an index.
_FOUND = re.compile(r"\s*Found link (\S+)(?: \(from (\S+?)\))?.*, version: (\S+)")
_ANOTHER = "name an index that has it: pip config set global.extra-index-url URL; in use: pip config list"
_BUSY = "see what the machine is busy with (top), then call the doctor again"
# Back ends are left alone: loading one may open a card that somebody else has.
_ALONE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}


def check_python(machine: Machine) -> list[Finding]:
    """The Python that runs this, and the requirements of spyre-ci."""
    version = platform.python_version()
    if Version(version.rstrip("+")) < Version(_OLDEST):
        return [fault(f"{version}; spyre-ci needs {_OLDEST} or newer", f"install Python {_OLDEST} or newer")]
    try:
        required = importlib.metadata.requires("spyre-ci") or []
    except importlib.metadata.PackageNotFoundError:  # used from a checkout
        required = []
    if missing := unmet(required, importlib.metadata.version):
        needs = [one.partition(" (")[0] for one in missing]
        remedy = shell_line([sys.executable, "-m", "pip", "install", *needs])
        count = counted(len(missing), "requirement")
        return [fault(f"{version}; {count} of spyre-ci not met: {', '.join(missing)}", remedy)]
    where = sys.prefix if sys.prefix != sys.base_prefix else f"{sys.prefix}, not a virtual environment"
    settings = machine.settings.path
    file = f"settings {settings}" if settings else "no settings file: all defaults"
    return [ok(f"{version} in {where}; {platform.machine()}, {counted(machine.cores, 'core')}; {file}")]


def unmet(required: Iterable[str], version: Callable[[str], str]) -> list[str]:
    """Requirements that are not met, such as `rich>=13.9 (12.0 is installed)`, without those of extras.

    Args:
        required: as a package's metadata has them.
        version: of an installed package; raises PackageNotFoundError.
    """
    found = []
    for one in map(Requirement, required):
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            needs = f"{one.name}{one.specifier}"
            try:
                installed = version(one.name)
                if not one.specifier.contains(installed, prereleases=True):
                    found.append(f"{needs} ({installed} is installed)")
            except importlib.metadata.PackageNotFoundError:
                found.append(needs)
    return found


def check_nox(machine: Machine) -> list[Finding]:
    """The nox that a noxfile of this folder needs; nothing else needs one."""
    text, command = _noxfile(machine), _nox(machine)
    if text is None:
        return [ok(f"not needed: no noxfile.py in {machine.cwd}; spyre-ci runs without nox")]
    if not command:
        without = "; `spyre-ci pytorch` runs without it, in this environment"
        torch = importlib.util.find_spec("torch") is not None
        level = Level.WARNING if torch else Level.FAULT
        return [Finding(level, f"not installed{without if torch else ''}", "pip install nox")]
    ended, why = machine.command([command, "--version"], limit_s=NOX_S)
    output = b"" if ended is None else ended.stdout + b"\n" + ended.stderr
    version = _VERSION.search(output.decode("utf-8", "replace"))
    needs = _NEEDS_NOX.search(text)
    if version is None or (ended is not None and ended.code):
        why = (
            why
            or (ended is not None and last_line(ended.stderr.decode("utf-8", "replace")))
            or "it prints no version"
        )
        return [fault(f"{command} cannot be used: {why}", "pip install --force-reinstall nox")]
    if needs and Version(version[0]) not in SpecifierSet(needs[1], prereleases=True):
        remedy = f"pip install {shell_line([f'nox{needs[1]}'])}"
        return [fault(f"{version[0]}, but noxfile.py needs {needs[1]}", remedy)]
    return [ok(f"{version[0]} ({command})")]


def _noxfile(machine: Machine) -> str | None:
    try:
        return (machine.cwd / "noxfile.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _nox(machine: Machine) -> str:
    """The nox of the path, else the one beside this Python; empty where there is neither."""
    folders = [machine.environ.get("PATH", ""), str(Path(sys.executable).parent)]
    return shutil.which("nox", path=os.pathsep.join(folders)) or ""


def check_torch(machine: Machine) -> Iterator[Finding]:
    """The torch of this environment: version, build, and what PyTorch's tests need besides."""
    pin, variant = torch_pin(), machine.settings.model.image.variant
    install = shell_line([sys.executable, "-m", "pip", "install", f"torch=={pin}"])
    env = {**without_job_secrets(machine.environ), **_ALONE}
    found, why = machine.probe("torch", limit_s=TORCH_S, env=env)
    if why.startswith("no answer"):
        yield warning(f"import torch did not end within {TORCH_S:g} s", _BUSY)
    elif "No module named 'torch'" in why:
        own = _nox(machine) and _PYTORCH_SESSION.search(_noxfile(machine) or "")
        nox = f"; `nox -s pytorch` installs {pin} into its own"
        level = Level.WARNING if own else Level.FAULT
        yield Finding(level, f"not installed in this environment{nox if own else ''}", install)
    elif not found:
        yield fault(f"cannot be imported: {why}", f"{install} --force-reinstall")
    else:
        message = f"{found['version']}, {found['build']}, {found['file']}; the pin is {pin}"
        if Version(found["version"]).base_version == pin:
            yield ok(message)
        elif variant != "pinned":
            yield warning(f"{message}, image.variant is {variant}", "none needed if that is meant")
        else:
            yield fault(message, install)
        if names := [one.name for one in torch_requirements() if not importlib.util.find_spec(one.name)]:
            remedy = shell_line([sys.executable, "-m", "pip", "install", *names])
            yield fault(f"PyTorch's tests need what is not installed: {', '.join(names)}", remedy)
    for concern in torch_excluded(machine.cwd, pin):
        yield warning(*concern)


def check_index(machine: Machine) -> Iterator[Finding]:
    """Whether pip finds the pinned torch, with its own indexes, links, logins, proxies and certificates."""
    pin = torch_pin()
    # Only -vv says which index has it, and why another does not answer.
    words = ["-vv", "--pre", "--retries", "0", "--timeout", "5", "--no-input", "--disable-pip-version-check"]
    argv = [sys.executable, "-P", "-m", "pip", "index", "versions", "torch", *words]
    ended, why = machine.command(argv, limit_s=PIP_S)
    output = b"" if ended is None else ended.stdout + b"\n" + ended.stderr
    lines = plain(output.decode("utf-8", "replace")).splitlines()
    if any("No module named pip" in line for line in lines):
        yield ok("not checked: there is no pip in this environment")
        return
    # An environment that is used as it is installs nothing.
    level = Level.WARNING if machine.environ.get("SPYRE_CI_ENVIRONMENT") == "image" else Level.FAULT
    versions = (line.removeprefix(_AVAILABLE) for line in lines if line.startswith(_AVAILABLE))
    available = next(versions, "").replace(",", "").split()
    away = [line for line in lines if line.startswith(_AWAY) and "404 Client Error" not in line]
    if any(Version(one).public == pin for one in available):
        level = Level.WARNING
        links = (found for line in lines if (found := _FOUND.match(line)) and found[3].startswith(pin))
        source = next((found[2] or found[1] for found in links), "pip's indexes")
        yield ok(f"torch {pin} is available from {source}")
    elif available:
        message = f"pip finds no torch {pin} for this Python and machine, but {', '.join(available[:3])}, …"
        yield Finding(level, message, _ANOTHER)
    elif not away:
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        why = why or "; ".join(errors) or "it says nothing"
        yield Finding(level, f"pip finds no torch: {why}", _ANOTHER)
    for line in away:
        index = line.removeprefix(_AWAY).removesuffix(" - skipping")
        yield Finding(level, f"pip cannot read {index}", "check its address, login, network and proxy")
