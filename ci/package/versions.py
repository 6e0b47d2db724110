"""Which version is built: the tag's, or a development version of the release to come; pure (PEP 440)."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from ci.core.errors import BadFileError, UsageError
from ci.package.project import Source

SHA_DIGITS = 9


def version_to_build(declared: str, source: Source, *, prefix: str = "v", local: bool = True) -> Version:
    """The version of what is built from a commit.

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
        BadFileError: declared version and tag are not versions, or the commit's tag and the declared version
            are not the same.
        UsageError: the clone is too shallow to tell.
    """
    said = as_version(declared, "the project's version") if declared else None
    if not source.commit:
        if said is None:
            raise UsageError(
                "the version is made from Git, and this is no checkout",
                remedy="build in a clone, or set package.version: declared",
            )
        return said
    tagged = as_version(source.tag.removeprefix(prefix), f"tag {source.tag}") if source.tag else None
    if tagged is not None and not source.distance and not source.dirty:
        if said is not None and said != tagged and not said.is_devrelease:
            raise BadFileError(
                f"the commit is tagged {source.tag}, and the project says version {declared}",
                where="pyproject.toml",
                remedy=f"set the version to {tagged} and move the tag, or tag {prefix}{declared}",
            )
        return tagged
    if source.shallow and tagged is None:
        raise UsageError(
            "the clone is shallow, so the commits since the last release cannot be counted",
            where=source.commit[:SHA_DIGITS],
            remedy="fetch all of it: git fetch --unshallow --tags (actions/checkout: fetch-depth: 0)",
        )
    return Version(f"{_coming(said, tagged, source.distance)}{_local(source) if local else ''}")


def _coming(declared: Version | None, tagged: Version | None, distance: int) -> str:
    """The development version of the release to come, so many commits after the last."""
    base = None if declared is None else _without_dev(declared)
    if tagged is None:
        return f"{base or '0.0.1'}.dev{distance}"
    # 1.0.dev4 comes before 1.0rc1, though 1.0 comes after.
    if base is not None and Version(f"{base}.dev0") > tagged:
        return f"{base}.dev{distance}"
    if tagged.dev is not None:
        # A changed checkout of the tag is not what it names.
        return f"{tagged.public.rpartition('.dev')[0]}.dev{tagged.dev + max(distance, 1)}"
    return f"{_raised(tagged)}.dev{distance}"


def _without_dev(version: Version) -> str:
    pre = "".join(map(str, version.pre or ()))
    return (
        f"{version.epoch}!{version.base_version.rpartition('!')[2]}{pre}"
        if version.epoch
        else (version.base_version + pre)
    )


def _raised(version: Version) -> str:
    """A version with its last number raised: 1.2.3 to 1.2.4, 2.0rc1 to 2.0rc2."""
    if version.pre is not None:
        kind, number = version.pre
        return f"{version.base_version}{kind}{number + 1}"
    *first, last = version.release
    epoch = f"{version.epoch}!" if version.epoch else ""
    return epoch + ".".join(map(str, [*first, last + 1]))


def _local(source: Source) -> str:
    return f"+g{source.commit[:SHA_DIGITS]}{'.dirty' if source.dirty else ''}"


def as_version(text: str, what: str) -> Version:
    """A version that somebody wrote.

    Raises:
        BadFileError: it is none.
    """
    try:
        return Version(text)
    except InvalidVersion as error:
        raise BadFileError(
            f"{what} is no version: {text!r}", remedy="use one of PEP 440, such as 1.2.3 or 1.2.3rc1"
        ) from error
