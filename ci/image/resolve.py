"""From a stack file to a stack with every part named exactly."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci.core.errors import MissingInputError, UsageError
from ci.core.registry import digest_of
from ci.core.repositories import commit_of
from ci.image.checkout import put_checkout
from ci.image.model import Component, Platform, Stack
from ci.image.resolved import ResolvedComponent, ResolvedFile, ResolvedPytorch, ResolvedStack
from ci.image.torch_wheels import Wanted, find_wheel

SUFFIXES = (".whl", ".deb", ".rpm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """Names everything exactly.

    Attributes:
        folder: of the stack file; package files are beside it.
        environ: git's and pip's.
        folders: of this machine that take the place of components' repositories, by name.
    """

    folder: Path
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
            base_digest=stack.base.digest or digest_of(stack.base.image),
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
        python = stack.base.python_version
        assert python is not None  # noqa: S101  # read_stack wants it
        wanted = Wanted(index=said.wheel_index, version=said.version, python=python, platform=platform)
        version, sha256 = find_wheel(wanted, environ=self.environ)
        return ResolvedPytorch(requirement=f"torch=={version}", index=said.wheel_index, sha256=sha256)

    def _component(self, component: Component) -> ResolvedComponent:
        if (here := self.folders.get(component.name)) is not None:
            with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as copy:
                tree = put_checkout(here, Path(copy) / component.name, environ=self.environ)
            return ResolvedComponent(component=component, folder=here, tree=tree)
        if component.git is not None:
            commit = commit_of(component.git.url, component.git.ref, environ=self.environ)
            return ResolvedComponent(component=component, commit=commit)
        if component.image is not None:
            digest = component.image.digest or digest_of(component.image.name)
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
                if path.suffix not in SUFFIXES:
                    raise self._wrong(
                        f"{path.name} of {component.name} is no package, such as .whl, .deb, .rpm"
                    )
                # They are installed from one folder.
                if found.setdefault(path.name, self._file(path)).path != self._file(path).path:
                    raise self._wrong(f"{component.name} has two files named {path.name}")
        return tuple(found.values())

    def _file(self, path: Path) -> ResolvedFile:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return ResolvedFile(path=path.relative_to(self.folder).as_posix(), sha256=digest)

    def _wrong(self, what: str) -> UsageError:
        return UsageError(what, where=self.folder, remedy="rename it, or leave it out of `files`")


def _check(stack: Stack, variant: str, platform: Platform) -> None:
    if variant not in stack.variants:
        known = ", ".join(stack.variants)
        raise UsageError(f"there is no variant {variant!r}", where="--variant", remedy=f"variants: {known}")
    for name, platforms in {
        "the stack": stack.platforms,
        **{one.name: one.platforms for one in stack.components},
    }.items():
        if platform not in platforms:
            raise UsageError(
                f"{name} cannot be built for {platform}",
                where="image.platform",
                remedy=f"its platforms: {', '.join(platforms)}",
            )
