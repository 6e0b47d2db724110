"""PyTorch's wheel, built from source once a commit: found in the registry, or on the engine, or built.

It lies in an image of its own, `<repository>-pytorch:wheel-<hash>`, with /wheels and the compiler's cache in
/ccache. A tag beside it moves to the last one that was built, whose cache the next build is given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker

from ci.core.errors import CommandError
from ci.image.build import Order, build
from ci.image.containerfile import render_wheel, wheel_name
from ci.image.engine import has_image
from ci.image.push import push
from ci.image.registry import find_digest
from ci.image.repositories import put_files
from ci.image.resolved import ResolvedStack, by_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelMaker:
    """Finds wheels, or builds them.

    Attributes:
        client: the engine.
        repository: of the runtime image; wheels are beside it.
        environ: git's.
        settings: of the build, see ci.image.pantry.settings_of.
        echo: takes lines for people.
        clock: seconds.
    """

    client: docker.DockerClient
    repository: str
    environ: Mapping[str, str]
    settings: str
    echo: Callable[[str], None]
    clock: Callable[[], float]

    def provide(self, resolved: ResolvedStack, *, pushes: bool) -> None:
        """See that the engine has the image with the wheel, by the name a stack's Containerfile has for it.

        Args:
            resolved: the stack, with a PyTorch that is built.
            pushes: whether it goes to the registry, so that nobody builds it again.

        Raises:
            BuildStepError: a step failed.
            SpyreCiError: the commit cannot be had, or the engine or the registry refuses.
        """
        local = wheel_name(resolved)
        tag = local.rpartition(":")[2]
        remote = f"{self.repository}-pytorch:{tag}"
        if self._pulled(remote, local, pushes=pushes):
            self.echo(f"{remote} is in the registry: PyTorch is not built")
            return
        moving = f"cache-{resolved.platform.rpartition('/')[2]}"
        if has_image(self.client, local):
            self.echo(f"{local} is on the engine: PyTorch is not built")
        else:
            self._build(resolved, local, moving, pushes=pushes)
        if pushes:
            self._name(local, remote)
            push(self.client, remote, tags=[moving], version=None, echo=self.echo)

    def _build(self, resolved: ResolvedStack, local: str, moving: str, *, pushes: bool) -> None:
        git, commit = resolved.pytorch.git, resolved.pytorch.commit
        assert git is not None  # noqa: S101  # the caller chose
        cache = f"{local.rpartition(':')[0]}:{moving}"
        there = self._pulled(f"{self.repository}-pytorch:{moving}", cache, pushes=pushes) or has_image(
            self.client, cache
        )
        self.echo(f"PyTorch: {git.url} at {commit}, {'with' if there else 'without'} a compiler's cache")
        with tempfile.TemporaryDirectory(prefix="spyre-ci-pytorch-") as folder:
            source = Path(folder) / "pytorch"
            put_files(git.url, commit, source, environ=self.environ)
            order = Order(
                containerfile=render_wheel(resolved, cache_of=cache if there else ""),
                sources={"pytorch": source},
                target="wheel",
                tag=local,
                settings=self.settings,
            )
            build(self.client, order, echo=self.echo, clock=self.clock)
        self._name(local, cache)

    def _pulled(self, remote: str, local: str, *, pushes: bool) -> bool:
        """Whether the registry has an image, which the engine then has under its local name."""
        if "/" not in remote:
            return False  # the engine's own name: there is no registry
        try:
            digest = find_digest(self.client, remote)
        except CommandError as error:
            if pushes:
                raise
            self.echo(f"{remote} cannot be looked up: {error.what}")
            return False
        if digest is None:
            return False
        exact = by_digest(remote, digest)
        self.client.images.pull(exact)
        self._name(exact, local)
        return True

    def _name(self, image: str, name: str) -> None:
        repository, _, tag = name.rpartition(":")
        self.client.api.tag(image, repository, tag)
