"""From a stack file to a stack with every part named exactly."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci.core.errors import MissingInputError, UsageError
from ci.core.registry import by_digest, digest_of
from ci.core.repositories import commit_of
from ci.image.checkout import put_checkout
from ci.image.model import Component, Git, Platform, Pytorch, Stack
from ci.image.torch_wheels import find_wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedComponent:
    """A component, named exactly.

    Attributes:
        component: as the stack file has it.
        revision: what a label says of it: a commit (40 hex digits), the name of a folder's files
            (`tree:…`), the digest of a prebuilt image (`sha256:…`), or hashes of package files.
        folder: of this machine that it is built from, in place of its repository.
        files: of one made of package files: SHA-256 in hex by path, which is relative to the stack file.
    """

    component: Component
    revision: str = ""
    folder: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPytorch:
    """Which PyTorch.

    Attributes:
        requirement: what pip is asked for, such as `torch==2.13.0`; empty where it is built.
        commit: 40 hex digits, where it is known before the image is built; a wheel tells it of itself after.
        index: the wheel is taken from; empty: the one of the build's settings.
        sha256: of the wheel, in hex, where the index tells it.
        git: PyTorch's repository, where it is built.
    """

    requirement: str
    commit: str = ""
    index: str = ""
    sha256: str = ""
    git: Git | None = None

    @property
    def exact(self) -> str:
        """What a label says of it before the image can be asked."""
        return self.commit or self.requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedStack:
    """All of it, for one variant and one platform.

    Attributes:
        stack: as the file has it, components in the order they are built.
        variant: the name of its PyTorch.
        platform: it is built for.
        base_digest: `sha256:…`.
        pytorch: which one.
        components: in the order they are built.
        revision: the commit of the checkout that builds it; empty where it is none.
    """

    stack: Stack
    variant: str
    platform: Platform
    base_digest: str
    pytorch: ResolvedPytorch
    components: tuple[ResolvedComponent, ...]
    revision: str = ""

    @property
    def base(self) -> str:
        """The base image by digest."""
        return by_digest(self.stack.base.image, self.base_digest)

    @property
    def revisions(self) -> Mapping[str, str]:
        """What each component is of, by name."""
        return {one.component.name: one.revision for one in self.components}


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
            SpyreCiError: there is no such variant or platform; a ref, an image or a file is not found.
        """
        if variant not in stack.variants:
            known = f"variants: {', '.join(stack.variants)}"
            raise UsageError(f"there is no variant {variant!r}", where="--variant", remedy=known)
        every = {stack.name: stack.platforms, **{one.name: one.platforms for one in stack.components}}
        for name, platforms in every.items():
            if platform not in platforms:
                known = f"its platforms: {', '.join(platforms)}"
                told = f"{name} cannot be built for {platform}"
                raise UsageError(told, where="image.platform", remedy=known)
        return ResolvedStack(
            stack=stack,
            variant=variant,
            platform=platform,
            base_digest=stack.base.digest or digest_of(stack.base.image),
            pytorch=self._pytorch(stack.variants[variant], stack.base.python_version or "", platform),
            components=tuple(self._component(one) for one in stack.components),
            revision=revision,
        )

    def _pytorch(self, said: Pytorch, python: str, platform: Platform) -> ResolvedPytorch:
        if said.git is not None:
            commit = commit_of(said.git.url, said.git.ref, environ=self.environ)
            return ResolvedPytorch(requirement="", commit=commit, git=said.git)
        if said.wheel_index is None:
            return ResolvedPytorch(requirement=f"torch=={said.version}")
        version, sha256 = find_wheel(
            said.wheel_index, said.version, python=python, platform=platform, environ=self.environ
        )
        return ResolvedPytorch(requirement=f"torch=={version}", index=said.wheel_index, sha256=sha256)

    def _component(self, component: Component) -> ResolvedComponent:
        if (here := self.folders.get(component.name)) is not None:
            with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as copy:
                tree = put_checkout(here, Path(copy) / component.name, environ=self.environ)
            return ResolvedComponent(component=component, folder=here, revision=tree)
        files = {}
        if component.git is not None:
            revision = commit_of(component.git.url, component.git.ref, environ=self.environ)
        elif component.image is not None:
            revision = component.image.digest or digest_of(component.image.name)
        else:
            files = self._files(component)
            revision = ",".join(f"sha256:{one}" for one in files.values())
        return ResolvedComponent(component=component, revision=revision, files=files)

    def _files(self, component: Component) -> dict[str, str]:
        found: dict[str, Path] = {}
        for pattern in component.files:
            paths = [path for path in sorted(self.folder.glob(pattern)) if path.is_file()]
            if not paths:
                what = f"{component.name} has no file {pattern!r}"
                raise MissingInputError(what, where=self.folder, remedy="put it there, or fix `files`")
            for path in paths:
                # They are installed from one folder.
                if found.setdefault(path.name, path) != path:
                    what = f"{component.name} has two files named {path.name}"
                    raise UsageError(what, where=self.folder, remedy="rename one, or leave it out of `files`")
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in found.values()
        }
