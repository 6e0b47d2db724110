"""Where a project's tests run: an environment it is installed in, and its files without what was installed.

The tests are run from a copy in which the packages themselves are missing, so that every import finds what
was installed: a file that was forgotten in the wheel is missed here, and the checkout is not written to.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dependency_groups import resolve

import ci
import test_selection
from ci.core.errors import EXIT_INCOMPLETE, BadFileError, CommandError, UsageError
from ci.core.withheld import without_job_secrets
from ci.package.compiling import constrained
from ci.package.environment import Environment, in_folder, make
from ci.package.export import export
from ci.package.project import PYPROJECT, Project

_TIMEOUT_S = 120
# The extra or the dependency group with what tests want.
TEST = "test"
_LISTED = (
    "import importlib.metadata as m, json, sys; "
    "found = m.distribution(sys.argv[1]).files or []; "
    'print(json.dumps(sorted({str(f).split("/")[0] for f in found})))'
)
_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
_MARKER_PLUGIN = "spyre_ci_device_marker"
# What the device wants is said by the copy of this package in the environment; -P: no folder of the project.
_DEVICE = (
    "import json, sys; from ci.device.environment import device_environment as d; "
    'print(json.dumps(d("spyre", *json.loads(sys.argv[1]))))'
)
# Tells ci.device that the emulated device is wanted although torch_spyre is there; torch must not load that.
_EMULATED = {
    "SPYRE_CI_EMULATE": "1",
    "SPYRE_CI_TEST_DEVICE": "emulated",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
}


class NotInstalledError(CommandError):
    """A project that cannot be installed, so that nothing was tested."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """Where tests run.

    Attributes:
        environment: what is installed.
        tree: the project's files.
    """

    environment: Environment
    tree: Path

    def has(self, name: str) -> bool:
        """Whether the tree has a file or folder."""
        path = (self.tree / name).resolve()
        return bool(name) and path.is_relative_to(self.tree) and path.exists()


def lay(
    project: Project,
    work: Path,
    environ: Mapping[str, str],
    *,
    requirements: Sequence[str],
    constraints: Sequence[str],
    keep: bool = False,
) -> Bed:
    """Install a project from a copy of its checkout, with what its tests need.

    Args:
        project: the checkout.
        work: a folder for it.
        environ: the user's variables; tests see them without tokens.
        requirements: besides the project's extra or group `test`.
        constraints: requirements that hold for whatever is installed.
        keep: whether the environment of an earlier time is used again, where there is one.

    Raises:
        NotInstalledError: pip could not.
        BadFileError: the project's dependency groups are broken.
    """
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    export(project, tree)
    visible = constrained(without_job_secrets(environ), work, constraints)
    folder = work / "env"
    if keep and (folder / "bin" / "python").exists():
        environment = in_folder(folder, visible, constraints=constraints)
    else:
        environment = make(folder, visible, constraints=constraints)
    try:
        environment.install([f"{tree}{extra_of(project)}", *group_of(project), *requirements])
    except CommandError as error:
        raise NotInstalledError(
            f"it cannot be installed with what its tests need: {error.what}",
            where=project.folder,
            remedy="see pip's last lines; `spyre-ci package build` says more of a build that fails",
        ) from error
    return Bed(environment=environment, tree=tree.resolve())


def take_sources_away(bed: Bed, project: Project, keep: Sequence[str], say: Callable[[str], None]) -> None:
    """Delete from the tree what was installed, so that no test imports it from there.

    Args:
        bed: where tests run.
        project: what was installed.
        keep: paths of tests; a package that holds some of them stays, which is said.
        say: takes a line for people.
    """
    said = bed.environment.run(["-I", "-c", _LISTED, project.canonical], timeout_s=_TIMEOUT_S)
    kept = [(bed.tree / path).resolve() for path in keep]
    for name in json.loads(said):
        if name in {"..", "__pycache__"} or name.endswith((".dist-info", ".egg-info", ".pth")):
            continue
        for path in _sources(bed.tree, name, project):
            if any(one.is_relative_to(path) for one in kept):
                say(f"{name} stays beside its tests, which are in it: they may import it from there")
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _sources(tree: Path, name: str, project: Project) -> list[Path]:
    """Where in a tree a top-level package or module may be kept."""
    dirs = project.tool("setuptools", "package-dir")
    roots = {"", "src"} | ({str(dirs[""])} if isinstance(dirs, dict) and "" in dirs else set())
    paths = [(tree / root / name).resolve() for root in sorted(roots)]
    return [path for path in paths if path.exists() and path != tree and path.is_relative_to(tree)]


def know_marker(bed: Bed, marker: str) -> str:
    """Have pytest know a marker, which is else a mistake to ask for; the plugin's name.

    Args:
        bed: where tests run.
        marker: of tests that need a card.
    """
    (_site(bed) / f"{_MARKER_PLUGIN}.py").write_text(
        f'def pytest_configure(config):\n    config.addinivalue_line("markers", "{marker}: needs a card")\n',
        encoding="utf-8",
    )
    return _MARKER_PLUGIN


def _site(bed: Bed) -> Path:
    return Path(bed.environment.run(["-I", "-c", _SITE], timeout_s=_TIMEOUT_S).strip())


def emulate(bed: Bed, refuse_ops: Sequence[str], refuse_dtypes: Sequence[str]) -> Bed:
    """The same with the emulated spyre device.

    The files of this very spyre-ci are copied into the environment, without what it depends on: the device
    needs torch alone, and the project's own requirements stay as they are.

    Args:
        bed: where tests run.
        refuse_ops: aten operators the device refuses.
        refuse_dtypes: dtypes it refuses.

    Raises:
        BadFileError: the project, or something it needs, has packages of the same names.
    """
    site = _site(bed)
    for package in (ci, test_selection):
        source = Path(package.__file__ or "").parent
        target = site / source.name
        if target.exists() and not _is_ours(target, source):
            raise BadFileError(
                f"a package {source.name!r} is installed that is not spyre-ci's, whose place it takes",
                where=target,
                remedy="set package.tests.emulated: false",
            )
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    refused = json.dumps([list(refuse_ops), list(refuse_dtypes)])
    said = bed.environment.run(["-P", "-c", _DEVICE, refused], timeout_s=_TIMEOUT_S)
    variables = {**bed.environment.variables, **json.loads(said), **_EMULATED}
    return replace(bed, environment=replace(bed.environment, variables=variables))


def _is_ours(target: Path, source: Path) -> bool:
    first, second = target / "__init__.py", source / "__init__.py"
    return first.is_file() and first.read_bytes() == second.read_bytes()


def _has_torch(bed: Bed) -> bool:
    """Whether torch is there, without which there is no emulated device."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    try:
        bed.environment.run(["-I", "-c", code], timeout_s=_TIMEOUT_S)
    except CommandError:
        return False
    return True


def refuse_without_torch(bed: Bed) -> None:
    """Refuse the emulated device where torch is not installed.

    Raises:
        UsageError: it is not.
    """
    if not _has_torch(bed):
        raise UsageError(
            "the emulated device wants torch, and nothing that was installed brings it",
            where="package.tests.emulated",
            remedy="name it in package.tests.requirements, or set package.tests.emulated: false",
        )


def extra_of(project: Project) -> str:
    """`[test]` where the project has such an extra, or may have one that is made when it is built."""
    table = project.pyproject["project"]
    dynamic = "optional-dependencies" in table.get("dynamic", [])
    return f"[{TEST}]" if dynamic or TEST in table.get("optional-dependencies", {}) else ""


def group_of(project: Project) -> list[str]:
    """The requirements of the dependency group `test` (PEP 735); none where there is no such group.

    Raises:
        BadFileError: the groups are not what the standard has.
    """
    groups = project.pyproject.get("dependency-groups", {})
    if TEST not in groups:
        return []
    try:
        return list(resolve(groups, TEST))
    except (ValueError, TypeError, LookupError) as error:
        raise BadFileError(
            f"the dependency group {TEST!r} cannot be resolved: {error}",
            where=project.folder / PYPROJECT,
            remedy="mend it there; see PEP 735",
        ) from error
