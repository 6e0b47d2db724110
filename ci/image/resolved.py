"""A stack whose every part is named exactly, and the tag that a hash of all of it gives; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.registry import by_digest
from ci.image.model import Component, Git, Platform, Stack
from ci.image.stack import params_of

# 80 bits: no two of a registry's images meet by chance.
DIGITS = 20
PREFIX = "stack-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """A package file.

    Attributes:
        path: relative to the stack file.
        sha256: of its bytes, in hex.
    """

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedComponent:
    """A component, named exactly.

    Attributes:
        component: as the stack file has it.
        commit: 40 hex digits, of one built from a repository; else empty.
        folder: of this machine that it is built from, in place of its repository.
        tree: the name of that folder's files.
        digest: `sha256:…` of a prebuilt image; else empty.
        files: of one made of package files.
    """

    component: Component
    commit: str = ""
    folder: Path | None = None
    tree: str = ""
    digest: str = ""
    files: tuple[ResolvedFile, ...] = ()

    @property
    def revision(self) -> str:
        """What a label says of it: a commit, the name of a folder's files, a digest, or hashes of files."""
        return (
            self.commit or self.tree or self.digest or ",".join(f"sha256:{one.sha256}" for one in self.files)
        )


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


def identity_of(resolved: ResolvedStack, containerfile: str, *, index: str = "") -> str:
    """The tag `stack-<20 hex digits>` of what is built from a rendered file.

    The commit of the checkout that builds it goes into a label alone: it changes with every commit, and the
    image does not.

    Args:
        resolved: the stack, named exactly.
        containerfile: as rendered, without what changes and does not matter.
        index: tells the package index that steps find from another; see ci.image.build_settings.index_key.
    """
    said = {
        "containerfile": containerfile,
        "index": index,
        "platform": resolved.platform,
        "base": resolved.base_digest,
        "pytorch": [resolved.pytorch.requirement, resolved.pytorch.commit],
        "components": {
            one.component.name: [one.revision, params_of(resolved.stack, one.component)]
            for one in resolved.components
        },
        # Who finds the tag in a registry runs no tests: they have to be the ones that it passed.
        "tests": {
            one.component.name: [one.component.test, one.component.device_test]
            for one in resolved.components
            if one.component.test or one.component.device_test
        },
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
