"""From a stack file to a stack with every part named exactly; pip says which wheel an index has."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci.core.addresses import without_secrets
from ci.core.errors import CommandError, MissingInputError, SpyreCiError, UsageError
from ci.core.process import run_command
from ci.core.repositories import commit_of
from ci.image.checkout import put_checkout
from ci.image.model import Component, Platform, Stack
from ci.image.resolved import ResolvedComponent, ResolvedFile, ResolvedPytorch, ResolvedStack

SUFFIXES = (".whl", ".deb", ".rpm")
# An index that does not describe its wheels apart gives the whole wheel, some 200 MB.
TIMEOUT_S = 900
# Of C libraries that bases have: Red Hat 7 to 9 and what came between.
_GLIBC = range(34, 16, -1)
_MACHINES: Mapping[Platform, str] = {
    "linux/amd64": "x86_64",
    "linux/ppc64le": "ppc64le",
    "linux/s390x": "s390x",
}
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_SHOWN = 8


class Digests(Protocol):
    """Tells digests of images."""

    def __call__(self, image: str, /) -> str:
        """The digest of an image's tag, `sha256:…`.

        Raises:
            SpyreCiError: the registry cannot be reached, or has no such image.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """Names everything exactly.

    Attributes:
        folder: of the stack file; package files are beside it.
        digest_of: asks a registry.
        environ: git's.
        folders: of this machine that take the place of components' repositories, by name.
    """

    folder: Path
    digest_of: Digests
    environ: Mapping[str, str]
    folders: Mapping[str, Path] = field(default_factory=dict)

    def resolve(self, stack: Stack, *, variant: str, platform: Platform, revision: str = "") -> ResolvedStack:
        """A stack, named exactly.

        Args:
            stack: components in the order they are built.
            variant: one of its variants.
            platform: one of its platforms.
            revision: the commit of the checkout that builds it.

        Raises:
            SpyreCiError: there is no such variant or platform; a ref, an image or a file is not there.
        """
        _check(stack, variant, platform)
        return ResolvedStack(
            stack=stack,
            variant=variant,
            platform=platform,
            base_digest=stack.base.digest or self.digest_of(stack.base.image),
            pytorch=self._pytorch(stack, variant, platform),
            components=tuple(self._component(one) for one in stack.components),
            revision=revision,
        )

    def _pytorch(self, stack: Stack, variant: str, platform: Platform) -> ResolvedPytorch:
        said = stack.variants[variant]
        if said.git is not None:
            commit = commit_of(said.git.url, said.git.ref, environ=self.environ)
            return ResolvedPytorch(requirement="", commit=commit, git=said.git)
        if said.wheel_index is None:
            return ResolvedPytorch(requirement=f"torch=={said.version}")
        assert stack.base.python_version is not None  # noqa: S101  # read_stack wants it
        wheel = find_wheel(
            Wanted(
                index=said.wheel_index,
                version=said.version,
                python=stack.base.python_version,
                platform=platform,
            ),
            environ=self.environ,
        )
        requirement = f"torch=={wheel.version}"
        return ResolvedPytorch(requirement=requirement, index=said.wheel_index, sha256=wheel.sha256)

    def _component(self, component: Component) -> ResolvedComponent:
        if (here := self.folders.get(component.name)) is not None:
            with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as copy:
                tree = put_checkout(here, Path(copy) / component.name, environ=self.environ)
            return ResolvedComponent(component=component, folder=here, tree=tree)
        if component.git is not None:
            commit = commit_of(component.git.url, component.git.ref, environ=self.environ)
            return ResolvedComponent(component=component, commit=commit)
        if component.image is not None:
            digest = component.image.digest or self.digest_of(component.image.name)
            return ResolvedComponent(component=component, digest=digest)
        return ResolvedComponent(component=component, files=self._files(component))

    def _files(self, component: Component) -> tuple[ResolvedFile, ...]:
        found: dict[str, ResolvedFile] = {}
        for pattern in component.files:
            paths = [path for path in sorted(self.folder.glob(pattern)) if path.is_file()]
            if not paths:
                raise MissingInputError(
                    f"{component.name} has no file {pattern!r}",
                    where=self.folder,
                    remedy="put it there, or mend `files`",
                )
            for path in paths:
                name = path.relative_to(self.folder).as_posix()
                if path.suffix not in SUFFIXES:
                    raise UsageError(
                        f"{name} of {component.name} is no package",
                        where=self.folder,
                        remedy=f"files end in {', '.join(SUFFIXES)}",
                    )
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[name] = ResolvedFile(path=name, sha256=digest)
        names = [one.path.rpartition("/")[2] for one in found.values()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(
                f"{component.name} has two files named {twice[0]}",
                where=self.folder,
                remedy="give one another name, or leave it out of `files`",
            )
        return tuple(found.values())


def _check(stack: Stack, variant: str, platform: Platform) -> None:
    if variant not in stack.variants:
        known = ", ".join(stack.variants)
        raise UsageError(f"there is no variant {variant!r}", where="--variant", remedy=f"variants: {known}")
    if platform not in stack.platforms:
        known = ", ".join(stack.platforms)
        raise UsageError(
            f"the stack is not built for {platform}", where="--platform", remedy=f"platforms: {known}"
        )
    for one in stack.components:
        if platform not in one.platforms:
            raise UsageError(
                f"{one.name} cannot be built for {platform}",
                where="--platform",
                remedy=f"its platforms: {', '.join(one.platforms)}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wheel that is looked for.

    Attributes:
        index: its address.
        version: of a release; None: the newest, nightly ones too.
        python: of the image, such as 3.12.
        platform: of the image.
    """

    index: str
    version: str | None
    python: str
    platform: Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel that is there.

    Attributes:
        version: exact, with its local part, such as 2.14.0.dev20261101+cpu.
        sha256: in hex; empty where neither the index nor pip tells it.
    """

    version: str
    sha256: str


def find_wheel(wanted: Wanted, *, environ: Mapping[str, str]) -> Wheel:
    """The wheel of torch that pip would install from an index.

    Args:
        wanted: what is looked for.
        environ: pip's: proxies, certificates, credentials.

    Raises:
        MissingInputError: the index has no such wheel.
        CommandError: the index cannot be reached, or pip is not there.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-ci-pip-") as folder:
        try:
            said = run_command(
                [sys.executable, "-m", "pip", *arguments(wanted), "--target", folder],
                timeout_s=TIMEOUT_S,
                env=environment(wanted, environ, empty=folder),
            )
        except CommandError as error:
            raise refusal(wanted, error) from None
    return wheel_of(said, wanted.index)


def environment(wanted: Wanted, environ: Mapping[str, str], *, empty: str) -> dict[str, str]:
    """The environment of pip: the wheel comes from the one index, whatever other places pip's settings name.

    Variables win over pip's own files of settings, which may hold proxies and certificates and so are read;
    one that is empty wins over nothing.

    Args:
        wanted: names the index.
        environ: whose proxies, certificates and credentials stay.
        empty: an empty folder.
    """
    ours = {"PIP_INDEX_URL": wanted.index, "PIP_EXTRA_INDEX_URL": wanted.index, "PIP_FIND_LINKS": empty}
    kept = {name: text for name, text in environ.items() if name != "PIP_CONSTRAINT"}
    return {**kept, **ours, "PIP_NO_INDEX": "0", "LC_ALL": "C"}


def arguments(wanted: Wanted) -> list[str]:
    """What pip is asked."""
    name = f"torch=={wanted.version}" if wanted.version else "torch"
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--no-deps"]
    words += ["--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=2"]
    words += ["--python-version", wanted.python, "--implementation", "cp"]
    words += ["--abi", f"cp{wanted.python.replace('.', '')}"]
    words += [word for one in platform_tags(wanted.platform) for word in ("--platform", one)]
    return [*words, *([] if wanted.version else ["--pre"]), name]


def platform_tags(platform: Platform) -> list[str]:
    """The tags of wheels that run there, the newest C library first."""
    machine = _MACHINES[platform]
    named = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    return [*named, f"manylinux2014_{machine}", f"linux_{machine}"]


def wheel_of(report: str, index: str) -> Wheel:
    """The wheel of pip's installation report.

    Raises:
        CommandError: it is no report in the form that is known.
    """
    try:
        (one,) = json.loads(report)["install"]
        hashes = one["download_info"].get("archive_info", {}).get("hashes", {})
        return Wheel(version=str(one["metadata"]["version"]), sha256=str(hashes.get("sha256", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"pip's report of {index} cannot be read: {error!r}",
            remedy="update pip in the environment of spyre-ci to 23.0 or newer",
        ) from None


def refusal(wanted: Wanted, error: CommandError) -> SpyreCiError:
    """What pip said, as the user's error it is."""
    said = error.what
    if "No module named pip" in said:
        return CommandError(
            "pip, which looks up wheels, is not installed here",
            remedy=f"{sys.executable} -m ensurepip, or install pip into the environment of spyre-ci",
        )
    if "took longer" in said or "connection broken by" in said or "Could not fetch URL" in said:
        lines = [line.strip(" |") for line in said.splitlines() if "connection broken" in line] or [said]
        return CommandError(
            f"the package index cannot be reached: {without_secrets(lines[-1])[:300]}",
            where=wanted.index,
            remedy="check its address, proxies (HTTPS_PROXY) and certificates (PIP_CERT)",
        )
    found = _VERSIONS.search(said)
    if found is None:
        return CommandError(without_secrets(said), where=wanted.index)
    others = [one for one in found[1].split(", ") if one != "none"]
    name = f"torch {wanted.version}" if wanted.version else "wheel of torch"
    there = f"it has {', '.join(others[-_SHOWN:])}" if others else "it has none for these"
    return MissingInputError(
        f"the index has no {name} for Python {wanted.python} on {wanted.platform}: {there}",
        where=wanted.index,
        remedy="choose another version, index, base.python_version or platform",
    )
