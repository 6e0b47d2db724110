"""From a stack file to a stack whose every part is named exactly."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci.core.errors import MissingInputError, UsageError
from ci.image.checkout import put_checkout
from ci.image.index import Wanted, find_wheel
from ci.image.model import Component, Platform, Stack
from ci.image.repositories import commit_of
from ci.image.resolved import ResolvedComponent, ResolvedFile, ResolvedPytorch, ResolvedStack

SUFFIXES = (".whl", ".deb", ".rpm")


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
