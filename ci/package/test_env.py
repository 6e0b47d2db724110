"""Where a project's tests run: an environment it is installed in, and its files without what was installed.

The tests are run from a copy in which the packages themselves are missing, so that every import finds what
was installed: a file that was forgotten in the wheel is missed here, and the checkout is not written to.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path

import ci
import test_selection
from ci.config.run_model import Device
from ci.core.errors import EXIT_INCOMPLETE, CommandError
from ci.device.environment import EMULATE, device_environment
from ci.package.environment import Environment, make
from ci.package.export import export
from ci.package.project import PYPROJECT, Project

# The extra or the dependency group with what tests want.
_TEST = "test"
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
) -> Env:
    """Install a project from a copy of its checkout, with what its tests need.

    Args:
        project: the checkout.
        work: a folder for it.
        environ: the user's variables; tests see them without tokens.
        requirements: besides the project's extra or dependency group `test`.
        constraints: requirements that hold for whatever is installed.

    Raises:
        NotInstalledError: pip could not.
    """
    tree = export(project, work / "tree").resolve()
    environment = make(work / "env", environ, constraints=constraints)
    try:
        environment.install([*wanted_of(project, tree), *requirements])
    except CommandError as error:
        raise NotInstalledError(
            f"it cannot be installed with what its tests need: {error.what}",
            where=project.folder,
            remedy="see pip's last lines; `spyre-ci package build` says more of a build that fails",
        ) from error
    return Env(environment=environment, tree=tree)


def wanted_of(project: Project, tree: Path) -> list[str]:
    """What pip is told of the project: itself, and its extra and its dependency group (PEP 735) `test`.

    Args:
        project: the checkout.
        tree: the copy of it that is installed.
    """
    table = project.pyproject.project
    # Extras that are made when it is built may have it.
    extra = _TEST in table.optional_dependencies or "optional-dependencies" in table.dynamic
    group = ["--group", f"{tree / PYPROJECT}:{_TEST}"] if _TEST in project.pyproject.dependency_groups else []
    return [f"{tree}[{_TEST}]" if extra else str(tree), *group]


def remove_sources(env: Env, project: Project, keep: Sequence[str], say: Callable[[str], None]) -> None:
    """Delete from the tree what was installed, so that no test imports it from there.

    Args:
        env: where tests run.
        project: what was installed.
        keep: pytest's arguments, some of them paths; a package that holds one stays, which is said.
        say: takes a line for people.
    """
    (found,) = distributions(name=project.canonical, path=[str(env.environment.site)])
    installed = {file.parts[0] for file in found.files or ()}
    kept = [(env.tree / one.partition("::")[0]).resolve() for one in keep]
    for path in [*env.tree.iterdir(), *(env.tree / "src").glob("*")]:
        if path.name not in installed:
            continue
        if any(one.is_relative_to(path) for one in kept):
            say(f"{path.name} stays beside its tests, which are in it: they may import it from there")
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def with_plugins(env: Env, marker: str, device: Device | None) -> Env:
    """The same with a plugin that knows the marker of cards and, where one is wanted, the emulated device.

    The device is that of this very spyre-ci, found by PYTHONPATH without what spyre-ci depends on: it needs
    torch alone, and the project's own requirements stay as they are.

    Args:
        env: where tests run.
        marker: of tests that need a card; where it is not registered, pytest would refuse to be asked for it.
        device: settings of the emulated device; None: none is wanted.
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
        for package in (ci, test_selection):
            source = Path(package.__file__ or "").parent
            (folder / source.name).symlink_to(source, target_is_directory=True)
        variables |= device_environment("spyre", device.refuse_ops, device.refuse_dtypes)
        # The emulated device is wanted although torch_spyre is there; torch must not load that.
        variables |= {EMULATE: "1", "SPYRE_CI_TEST_DEVICE": "emulated", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        plugins.append(_DEVICE_PLUGIN)
    return replace(env, environment=replace(env.environment, variables=variables), plugins=tuple(plugins))
