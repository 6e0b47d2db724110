"""Virtual environments in which something is built or tried: nothing is in them that was not asked for."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci.core.commands import run_command
from ci.core.errors import CommandError
from ci.core.withheld import without_job_secrets
from ci.package.text import without_index_secrets

_CREATE_TIMEOUT_S = 300
INSTALL_TIMEOUT_S = 3600
# Of a shell that works in another environment, or of a checkout that is to be looked past.
_OF_OTHERS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PIP_TARGET")
_OLDEST, _NEWEST = 9, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment.

    Attributes:
        folder: of it.
        variables: what its processes see.
    """

    folder: Path
    variables: Mapping[str, str]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Where its packages are."""
        return next(self.folder.glob("lib/python*/site-packages"))

    def install(self, arguments: Sequence[str | Path], *, timeout_s: float = INSTALL_TIMEOUT_S) -> None:
        """Install what pip is told.

        Raises:
            CommandError: pip could not; with its last lines.
        """
        words: list[str | Path] = [self.python, "-m", "pip", "install", "--no-input", "--quiet"]
        self._told([*words, "--disable-pip-version-check", *arguments], timeout_s, self.folder)

    def run(self, arguments: Sequence[str | Path], *, timeout_s: float, cwd: Path | None = None) -> str:
        """What Python prints.

        Args:
            arguments: of the interpreter.
            timeout_s: seconds it may take.
            cwd: working folder; None: the environment's own, where there is no checkout.

        Raises:
            CommandError: it ended with another code than 0.
        """
        return self._told([self.python, *arguments], timeout_s, cwd or self.folder)

    def _told(self, words: Sequence[str | Path], timeout_s: float, cwd: Path) -> str:
        """What a command prints; where it fails, nothing that lets anybody into an index."""
        try:
            return run_command(words, timeout_s=timeout_s, env=self.variables, cwd=cwd)
        except CommandError as error:
            said = without_index_secrets(error.what, self.variables)
            raise CommandError(said, where=error.where, remedy=error.remedy) from None


def make(
    folder: Path,
    environ: Mapping[str, str],
    *,
    python: str | Path = sys.executable,
    constraints: Sequence[str] = (),
) -> Environment:
    """Make an environment with pip alone, in place of what was there.

    Args:
        folder: of it.
        environ: whose variables its processes see, except those of other environments and the job's tokens.
        python: the interpreter.
        constraints: requirements that hold for whatever is installed.

    Raises:
        CommandError: the interpreter could not.
    """
    shutil.rmtree(folder, ignore_errors=True)
    run_command(
        [sys.executable, "-m", "virtualenv", "--quiet", "--no-download", "--python", python, folder],
        timeout_s=_CREATE_TIMEOUT_S,
        remedy="check that this interpreter works, or leave it out of package.pythons",
    )
    return in_folder(folder, environ, constraints=constraints)


def in_folder(folder: Path, environ: Mapping[str, str], *, constraints: Sequence[str] = ()) -> Environment:
    """The environment that is in a folder; arguments as those of `make`.

    What runs in it is the project's code and that of whoever it depends on, so it sees no token of the job.
    """
    seen = without_job_secrets(environ)
    variables = {key: value for key, value in seen.items() if key not in _OF_OTHERS}
    variables["PATH"] = os.pathsep.join([str(folder / "bin"), environ.get("PATH", os.defpath)])
    variables |= {"VIRTUAL_ENV": str(folder), "PYTHONNOUSERSITE": "1"}
    if constraints:
        file = folder / "constraints.txt"
        file.write_text("".join(f"{line}\n" for line in constraints), encoding="utf-8")
        # pip before 25.3 reads the first for builds, later ones the second; the user's hold as well.
        for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"):
            variables[name] = f"{variables.get(name, '')} {file.as_uri()}".strip()
    return Environment(folder=folder, variables=variables)


@contextmanager
def passing(
    environ: Mapping[str, str], *, python: str | Path = sys.executable, constraints: Sequence[str] = ()
) -> Iterator[Environment]:
    """An environment for the length of a block; see `make`."""
    with tempfile.TemporaryDirectory(prefix="spyre-ci-env-") as folder:
        yield make(Path(folder, "env"), environ, python=python, constraints=constraints)


def torch_pin() -> list[str]:
    """The torch that this release of spyre-ci is made for, as a constraint; none if it is not installed."""
    try:
        found = map(Requirement, requires("spyre-ci") or [])
    except PackageNotFoundError:  # it is called from its checkout, in a runtime image
        return []
    return [f"{one.name}{one.specifier}" for one in found if one.name == "torch"][:1]


def fitting(pins: Sequence[str], requirements: Sequence[str]) -> tuple[str, ...]:
    """The pins that a project can have: one that it excludes would let nothing be installed.

    Args:
        pins: such as `torch==2.13.0`.
        requirements: of the project; what cannot be read is passed over.
    """
    wanted = []
    for line in requirements:
        with suppress(InvalidRequirement):
            wanted.append(Requirement(line))
    return tuple(pin for pin in pins if all(_allows(one, Requirement(pin)) for one in wanted))


def _allows(wanted: Requirement, pin: Requirement) -> bool:
    version = next(iter(pin.specifier)).version
    return canonicalize_name(wanted.name) != pin.name or wanted.specifier.contains(version, prereleases=True)


def interpreters(
    supported: str, environ: Mapping[str, str], named: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Interpreters to try a package with, the oldest first, as (path, version such as 3.12).

    Args:
        supported: the project's requires-python.
        environ: whose PATH is searched.
        named: by path or name; none: this one and every python3.N there is.

    Raises:
        CommandError: a named one is not found or does not run.
    """
    path = environ.get("PATH", os.defpath)
    found: dict[str, str] = {}
    for name in named or [sys.executable, *(f"python3.{minor}" for minor in range(_OLDEST, _NEWEST))]:
        where = shutil.which(name, path=path) or ""
        version = _version(where) if where else ""
        if not version and named:
            raise CommandError(
                f"the interpreter {name!r} is not found or does not run",
                where="package.pythons",
                remedy="install it",
            )
        if version and (named or SpecifierSet(supported).contains(version, prereleases=True)):
            found.setdefault(version.rpartition(".")[0], where)
    return sorted(((where, short) for short, where in found.items()), key=lambda one: Version(one[1]))


def _version(python: str) -> str:
    """An interpreter's version; empty where it does not run, as some shims do."""
    code = "import platform; print(platform.python_version())"
    with suppress(CommandError, OSError):
        found = re.match(r"[0-9]+\.[0-9]+\.[0-9]+", run_command([python, "-I", "-c", code], timeout_s=60))
        return found[0] if found else ""
    return ""
