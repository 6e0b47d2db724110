"""How a wheel installs: in a clean environment of a Python, imported and tried away from its checkout."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path

from ci.core.errors import CommandError, MissingInputError
from ci.core.findings import Finding
from ci.core.text import plain
from ci.package.artifacts import Artifact
from ci.package.context import Context
from ci.package.environment import Environment, passing

_TRY_TIMEOUT_S = 900
_SHOWN = 600
_TAGS = (
    "import json; from pip._vendor.packaging.tags import sys_tags; print(json.dumps([*map(str, sys_tags())]))"
)
# Imports everything that a distribution installs at the top level, from where it was installed.
_IMPORT = """
import importlib, importlib.metadata, inspect, pathlib, sys
inside = pathlib.Path(sys.prefix).resolve()
code = [one for one in importlib.metadata.files(sys.argv[1]) if one.suffix in {".py", ".so", ".pyd"}]
tops = {inspect.getmodulename(one.parts[0]) if len(one.parts) == 1 else one.parts[0] for one in code}
names = sorted(name for name in tops if name and name.isidentifier())
if not names:
    raise SystemExit("it installs nothing that can be imported")
for name in names:
    module = importlib.import_module(name)
    for place in [module.__file__] if module.__file__ else list(module.__path__):
        if not pathlib.Path(place).resolve().is_relative_to(inside):
            raise SystemExit(f"{name} was imported from {place}, not from what was installed")
print(", ".join(names))
"""


def try_wheel(
    one: Artifact, context: Context, python: str, short: str, *, isolated: bool = True
) -> Finding | None:
    """Install a wheel, import what it brings and run the smoke tests; None where it is not for this Python.

    Args:
        one: the wheel.
        context: of its project.
        python: the interpreter.
        short: its version, such as 3.12.
        isolated: whether it is alone there; else beside what the environment of this very Python has.
    """
    check = f"wheel on Python {short}"
    try:
        with passing(os.environ, python=python, constraints=context.constraints) as environment:
            if not isolated:
                _see_this_environment(environment)
            known = set(json.loads(environment.run(["-I", "-c", _TAGS], timeout_s=60)))
            if not any(str(tag) in known for tag in one.tags):
                return None
            environment.install([one.path], timeout_s=context.package.build_timeout_s)
            if isolated:  # an image's own packages need not agree
                environment.run(
                    ["-m", "pip", "check", "--disable-pip-version-check"], timeout_s=_TRY_TIMEOUT_S
                )
            seen = f"installs, imports {import_installed(environment, one.name)}"
            return Finding(check=check, seen=f"{seen}; {_smoke(environment, context)}")
    except CommandError as error:
        return Finding(
            check=check,
            seen=in_a_line(error),
            remedy="install it by hand in a new virtual environment to see the full output; if it needs a "
            "runtime image, run spyre-ci package verify --no-isolation in that image",
        )


def _see_this_environment(environment: Environment) -> None:
    """Have an environment find what this one has, after its own."""
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    lines = "".join(f"{path}\n" for path in paths)
    (environment.site / "spyre_ci_beside.pth").write_text(lines, encoding="utf-8")


def import_installed(environment: Environment, project: str) -> str:
    """Import all that a distribution installs; the names, for people.

    Raises:
        CommandError: one cannot be imported, or comes from elsewhere.
    """
    return (
        environment.run(["-I", "-c", _IMPORT, project], timeout_s=_TRY_TIMEOUT_S).strip().rpartition("\n")[2]
    )


def _smoke(environment: Environment, context: Context) -> str:
    """Run the smoke tests from copies away from the checkout; what pytest says last."""
    tests = context.package.smoke
    if not tests:
        return "no smoke tests are set (package.smoke)"
    environment.install(context.package.smoke_requirements)
    with tempfile.TemporaryDirectory(prefix="spyre-ci-smoke-") as name:
        folder = Path(name).resolve()
        for test in tests:
            _copy(context.project.folder, test, folder)
        words = ["-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
        words += ["-c", "/dev/null", "--rootdir", str(folder), *tests]
        said = environment.run(words, timeout_s=_TRY_TIMEOUT_S, cwd=folder)
    return f"smoke tests: {(said.strip().splitlines() or [''])[-1].strip('= ')}"


def _copy(project: Path, test: str, into: Path) -> None:
    source = (project / test).resolve()
    if not source.exists() or not source.is_relative_to(project):
        raise MissingInputError(
            f"there is no {test!r} in the project", where="package.smoke", remedy="name its smoke tests"
        )
    target = into / test
    target.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


def in_a_line(error: CommandError) -> str:
    """The last of what a command printed, without our words around it; of a traceback its last place."""
    first, *lines = [plain(line).removeprefix("  | ").strip() for line in str(error).splitlines()]
    places = [number for number, line in enumerate(lines) if line.startswith('File "')]
    lines = [line for line in lines[places[-1] if places else 0 :] if line.strip("^~ ")]
    return " ".join(" ".join(line.split()) for line in lines if line)[-_SHOWN:] or first
