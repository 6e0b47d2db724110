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

import ci
import test_selection
from ci.config.run_model import Device
from ci.core.errors import EXIT_INCOMPLETE, CommandError, UsageError
from ci.core.withheld import without_job_secrets
from ci.device.environment import EMULATE, device_environment
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
_HAS_TORCH = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
_MARKER_PLUGIN = "spyre_ci_device_marker"
_DEVICE_PLUGIN = "ci.device.pytest_plugin"


class NotInstalledError(CommandError):
    """A project that cannot be installed, so that nothing was tested."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Where tests run.

    Attributes:
        environment: what is installed.
        tree: the project's files.
        plugins: of pytest, besides the project's own.
    """

    environment: Environment
    tree: Path
    plugins: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the tree has a file or folder."""
        path = (self.tree / name).resolve()
        return bool(name) and path.is_relative_to(self.tree) and path.exists()


def install(
    project: Project,
    work: Path,
    environ: Mapping[str, str],
    *,
    requirements: Sequence[str],
    constraints: Sequence[str],
    keep: bool = False,
) -> Env:
    """Install a project from a copy of its checkout, with what its tests need.

    Args:
        project: the checkout.
        work: a folder for it.
        environ: the user's variables; tests see them without tokens.
        requirements: besides the project's extra or dependency group `test`.
        constraints: requirements that hold for whatever is installed.
        keep: whether the environment of an earlier time is used again, where there is one.

    Raises:
        NotInstalledError: pip could not.
    """
    tree = export(project, work / "tree").resolve()
    visible = constrained(without_job_secrets(environ), work, constraints)
    folder = work / "env"
    if keep and (folder / "bin" / "python").exists():
        environment = in_folder(folder, visible, constraints=constraints)
    else:
        environment = make(folder, visible, constraints=constraints)
    try:
        environment.install([f"{tree}{extra_of(project)}", *group_of(project, tree), *requirements])
    except CommandError as error:
        raise NotInstalledError(
            f"it cannot be installed with what its tests need: {error.what}",
            where=project.folder,
            remedy="see pip's last lines; `spyre-ci package build` says more of a build that fails",
        ) from error
    return Env(environment=environment, tree=tree)


def extra_of(project: Project) -> str:
    """`[test]` where the project has such an extra, or may have one that is made when it is built."""
    table = project.pyproject["project"]
    dynamic = "optional-dependencies" in table.get("dynamic", [])
    return f"[{TEST}]" if dynamic or TEST in table.get("optional-dependencies", {}) else ""


def group_of(project: Project, tree: Path) -> list[str]:
    """What pip is told of the dependency group `test` (PEP 735); nothing where there is no such group."""
    there = TEST in project.pyproject.get("dependency-groups", {})
    return ["--group", f"{tree / PYPROJECT}:{TEST}"] if there else []


def remove_sources(env: Env, project: Project, keep: Sequence[str], say: Callable[[str], None]) -> None:
    """Delete from the tree what was installed, so that no test imports it from there.

    Args:
        env: where tests run.
        project: what was installed.
        keep: paths of tests; a package that holds some of them stays, which is said.
        say: takes a line for people.
    """
    said = env.environment.run(["-I", "-c", _LISTED, project.canonical], timeout_s=_TIMEOUT_S)
    kept = [(env.tree / path).resolve() for path in keep]
    for name in json.loads(said):
        if name in {"..", "__pycache__"} or name.endswith((".dist-info", ".egg-info", ".pth")):
            continue
        for path in _sources(env.tree, name, project):
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


def with_plugins(env: Env, marker: str, device: Device | None) -> Env:
    """The same with a plugin that knows the marker of cards and, where one is wanted, the emulated device.

    The device is that of this very spyre-ci, found by PYTHONPATH without what spyre-ci depends on: it needs
    torch alone, and the project's own requirements stay as they are.

    Args:
        env: where tests run.
        marker: of tests that need a card; where it is not registered, pytest would refuse to be asked for it.
        device: settings of the emulated device; None: none is wanted.

    Raises:
        UsageError: it is wanted, and nothing that was installed brings torch.
    """
    folder = env.environment.folder.parent / "plugins"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / f"{_MARKER_PLUGIN}.py").write_text(
        f'def pytest_configure(config):\n    config.addinivalue_line("markers", "{marker}: needs a card")\n',
        encoding="utf-8",
    )
    variables = {**env.environment.variables, "PYTHONPATH": str(folder)}
    plugins = [_MARKER_PLUGIN]
    if device is not None:
        _refuse_without_torch(env)
        for package in (ci, test_selection):
            source = Path(package.__file__ or "").parent
            (folder / source.name).symlink_to(source, target_is_directory=True)
        variables |= device_environment("spyre", device.refuse_ops, device.refuse_dtypes)
        # The emulated device is wanted although torch_spyre is there; torch must not load that.
        variables |= {EMULATE: "1", "SPYRE_CI_TEST_DEVICE": "emulated", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        plugins.append(_DEVICE_PLUGIN)
    return replace(env, environment=replace(env.environment, variables=variables), plugins=tuple(plugins))


def _refuse_without_torch(env: Env) -> None:
    try:
        env.environment.run(["-I", "-c", _HAS_TORCH], timeout_s=_TIMEOUT_S)
    except CommandError as error:
        raise UsageError(
            "the emulated device wants torch, and nothing that was installed brings it",
            where="package.tests.emulated",
            remedy="name it in package.tests.requirements, or set package.tests.emulated: false",
        ) from error
