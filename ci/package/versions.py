"""Which version is built: the tag's, or a development version of the release to come (PEP 440)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ci.core.errors import BadFileError, UsageError
from ci.package.project import PYPROJECT, Project, Source

SHA_DIGITS = 9
_ASSIGNED = r"""^{name}(\s*:\s*str)?\s*=\s*(['"])(?P<version>[^'"\n]+)\2"""
_DECLARED = r"""^\[project\][^\n]*\n(?:(?!^\[).)*?^version\s*=\s*(['"])(?P<version>[^'"\n]+)\1"""


def version_to_build(declared: str, source: Source, *, prefix: str = "v", local: bool = True) -> Version:
    """Return the version of what is built from a commit; pure.

    A clean checkout of a tagged commit has the tag's version. Every other commit has one that comes before
    the next release: X.Y.Z.devN+gSHA, N being the commits since the last tag, so that versions of one branch
    grow with it. The next release is what the project declares, if its development versions come after the
    last tag, and else the last tag's with its last number raised: 2.0rc2 follows 2.0rc1. After a tag of a
    development version its number goes on: 1.0.dev3 is two commits after 1.0.dev1.

    Args:
        declared: what the project says; empty where it says none.
        source: where it stands.
        prefix: of release tags.
        local: whether `+gSHA` is part of it; PyPI takes no such version.

    Raises:
        BadFileError: the declared version is none, or not that of the commit's tag.
        UsageError: there is no commit to count, or the clone is too shallow.
    """
    try:
        said = Version(declared) if declared else None
    except InvalidVersion as error:
        remedy = "use one of PEP 440, such as 1.2.3 or 1.2.3rc1"
        raise BadFileError(f"{declared!r} is not a version", where=PYPROJECT, remedy=remedy) from error
    if not source.commit:
        if said is None:
            raise UsageError(
                "the version comes from Git, and this is not a Git checkout",
                remedy="build in a clone, or set package.version: declared",
            )
        return said
    tagged = Version(source.tag.removeprefix(prefix)) if source.tag else None
    if tagged is not None and not source.distance and not source.dirty:
        if said is not None and said != tagged and not said.is_devrelease:
            raise BadFileError(
                f"the commit is tagged {source.tag}, but the project declares version {declared}",
                where=PYPROJECT,
                remedy=f"set the version to {tagged} and move the tag, or tag {prefix}{declared}",
            )
        return tagged
    if source.shallow and tagged is None:
        raise UsageError(
            "the clone is shallow, so the commits since the last release cannot be counted",
            where=source.commit[:SHA_DIGITS],
            remedy="fetch the full history: git fetch --unshallow --tags (actions/checkout: fetch-depth: 0)",
        )
    own = f"+g{source.commit[:SHA_DIGITS]}{'.dirty' if source.dirty else ''}" if local else ""
    return Version(_coming(said, tagged, source.distance) + own)


def _coming(declared: Version | None, tagged: Version | None, distance: int) -> str:
    """The development version of the release to come, so many commits after the last."""
    base = declared and declared.base_version + "".join(map(str, declared.pre or ()))
    if tagged is None:
        return f"{base or '0.0.1'}.dev{distance}"
    # 1.0.dev4 comes before 1.0rc1, though 1.0 comes after.
    if base is not None and Version(f"{base}.dev0") > tagged:
        return f"{base}.dev{distance}"
    if tagged.dev is not None:
        # A changed checkout of the tag is not what it names.
        return f"{tagged.public.rpartition('.dev')[0]}.dev{tagged.dev + max(distance, 1)}"
    return f"{_raised(tagged)}.dev{distance}"


def _raised(version: Version) -> str:
    """A version with its last number raised: 1.2.3 to 1.2.4, 2.0rc1 to 2.0rc2."""
    if version.pre is not None:
        kind, number = version.pre
        return f"{version.base_version}{kind}{number + 1}"
    *first, last = version.release
    epoch = f"{version.epoch}!" if version.epoch else ""
    return epoch + ".".join(map(str, [*first, last + 1]))


def put_version(
    tree: Path, project: Project, version: Version, file: Path | None = None
) -> Mapping[str, str]:
    """Make a copy of a project's sources one of `version`; return the environment its build needs for that.

    Args:
        tree: the copy, which is changed.
        project: what it is of.
        version: of what is to be built.
        file: the module that assigns `__version__`, relative to the tree; None: as pyproject.toml says.

    Raises:
        UsageError: the version is neither in pyproject.toml nor in a module, nor made from Git.
    """
    declared = project.pyproject.project.version
    from_git = (
        project.tool("setuptools_scm") is not None or project.tool("hatch", "version", "source") == "vcs"
    )
    if from_git and not declared:
        return {"SETUPTOOLS_SCM_PRETEND_VERSION": str(version)}
    attribute = str(project.tool("setuptools", "dynamic", "version", "attr") or "")
    dotted, _, name = attribute.rpartition(".")
    below = dotted.replace(".", "/")
    usual = [Path(src, below + end) for src in ("", "src") for end in (".py", "/__init__.py") if dotted]
    pattern = _ASSIGNED.format(name=re.escape("__version__" if file else name))
    if declared:
        file, pattern = Path(PYPROJECT), _DECLARED
    for path in ((tree / one).resolve() for one in ([file] if file else usual)):
        text = path.read_bytes().decode() if path.is_file() and path.is_relative_to(tree.resolve()) else ""
        if found := re.search(pattern, text, re.MULTILINE | re.DOTALL):
            start, end = found.span("version")
            path.write_bytes(f"{text[:start]}{version}{text[end:]}".encode())
            return {}
    raise UsageError(
        "it is not known where the project keeps its version",
        where=project.folder / PYPROJECT,
        remedy="use setuptools-scm, set package.version_file to the module that assigns "
        "__version__ = '1.2.3', or set package.version: declared and the version in pyproject.toml",
    )
