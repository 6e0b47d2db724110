"""The way of an image: name everything exactly, find it in the registry or build it, and push it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import docker
from docker.errors import APIError

from ci.core.errors import CommandError, MissingInputError, UsageError
from ci.image.build import Order, build
from ci.image.checkout import leave_out_ignored, put_sources
from ci.image.commit import label_commit
from ci.image.component_tests import ComponentTests
from ci.image.containerfile import own_image, render
from ci.image.engine import check_platform, has_image
from ci.image.model import Platform
from ci.image.override import Override, overridden
from ci.image.pantry import INDEX_ARGUMENT, index_key, proxies_of, settings_of
from ci.image.push import check_tags, push
from ci.image.registry import digest_of, find_digest
from ci.image.resolve import Resolver
from ci.image.resolved import ResolvedComponent, ResolvedStack, identity_of
from ci.image.stack import params_of, read_stack
from ci.image.testing import Tester
from ci.image.verify.gate import Gate
from ci.image.wheel import WheelMaker

# Before the tag of an image whose tests did not run: nobody finds it in the place of one that passed.
UNTESTED = "untested-"
# Whose size an image is compared with, where no other tag moves to it.
LATEST = "latest"
# Tags that others take for what the stack file says.
RELEASED = frozenset({LATEST, "nightly"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is built.

    Attributes:
        file: the stack file.
        variant: its PyTorch.
        platform: it is built for.
        overrides: components that are taken from elsewhere.
        revision: the commit of the checkout that builds it; empty where it is none.
    """

    file: Path
    variant: str
    platform: Platform
    overrides: Sequence[Override] = ()
    revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An image before it is built.

    Attributes:
        resolved: everything named exactly.
        containerfile: rendered.
        tag: see `identity_of`.
        folder: of the stack file.
        replaced: names of components that are taken from elsewhere.
    """

    resolved: ResolvedStack
    containerfile: str
    tag: str
    folder: Path
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came of it.

    Attributes:
        name: repository and tag.
        digest: in the registry; empty where it was not pushed.
        found: whether it was there and nothing was built.
    """

    name: str
    digest: str = ""
    found: bool = False


def prepare(choice: Choice, client: docker.DockerClient, environ: Mapping[str, str]) -> Prepared:
    """Name everything exactly and render it.

    Raises:
        SpyreCiError: the file, an override, a ref, an image or a registry cannot be taken.
    """
    stack = overridden(read_stack(choice.file), choice.overrides)
    resolver = Resolver(
        folder=choice.file.parent,
        digest_of=partial(digest_of, client),
        environ=environ,
        folders={one.name: one.folder for one in choice.overrides if one.folder is not None},
    )
    resolved = resolver.resolve(
        stack, variant=choice.variant, platform=choice.platform, revision=choice.revision
    )
    containerfile = render(resolved)
    return Prepared(
        resolved=resolved,
        containerfile=containerfile,
        tag=identity_of(resolved, containerfile, index=index_key(environ)),
        folder=choice.file.parent,
        replaced=tuple(one.name for one in choice.overrides),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Builds and pushes.

    Attributes:
        client: the engine.
        repository: registry and name, without a tag.
        environ: git's and the build's settings.
        certificates: a company's bundle; None: the image's own.
        tester: runs the components' tests; None: they are left out.
        gate: verifies what was built.
        echo: takes lines for people.
        clock: seconds.
    """

    client: docker.DockerClient
    repository: str
    environ: Mapping[str, str]
    certificates: Path | None
    tester: Tester | None
    gate: Gate
    echo: Callable[[str], None]
    clock: Callable[[], float]

    def make(
        self,
        prepared: Prepared,
        tests: Sequence[ComponentTests] = (),
        *,
        pushes: bool,
        tags: Sequence[str] = (),
        version: str | None = None,
    ) -> Made:
        """Find the image in the registry, else build and test it; push it where that is asked for.

        One that is in the registry by its own tag passed its tests when it was pushed. One whose tests are
        left out has another tag, which says so.

        Args:
            prepared: what is built.
            tests: of its components.
            pushes: whether it goes to the registry.
            tags: that move to it.
            version: it is released as.

        Raises:
            UsageError: one whose tests are left out is to get tags that move, or a version.
            SpyreCiError: a step, a test or a check failed, or the engine or the registry refuses; nothing is
                pushed then, and the image has no tag.
        """
        self._check_names(prepared, pushes=pushes, tags=tags, version=version)
        if self.tester is None and (tags or version is not None):
            raise UsageError(
                "an image whose tests did not run gets no tag that moves and no version",
                where="--no-tests",
                remedy="leave out --no-tests, or --tag and --version",
            )
        names = [f"{self.repository}:{prepared.tag}"]
        if self.tester is None:
            names.append(f"{self.repository}:{UNTESTED}{prepared.tag}")
        for name in names if pushes else ():
            there = find_digest(self.client, name)
            if there is None:
                continue
            if not tags and version is None:
                self.echo(f"{name} is in the registry: nothing is built")
            else:
                repository, _, tag = name.rpartition(":")
                self.client.images.pull(repository, tag=tag)
                push(self.client, name, tags=tags, version=version, echo=self.echo, there=there)
            return Made(name=name, digest=there, found=True)
        for name in () if pushes else names:
            # It has its name only since it passed.
            if has_image(self.client, name):
                self.echo(f"{name} is on the engine: nothing is built")
                return Made(name=name, found=True)
        check_platform(self.client, prepared.resolved.platform)
        self.gate.ready()
        against = f"{self.repository}:{next(iter(tags), LATEST)}" if pushes else None
        self._build(prepared, names[-1], tests, pushes=pushes, against=against)
        if not pushes:
            return Made(name=names[-1])
        digest = push(self.client, names[-1], tags=tags, version=version, echo=self.echo)
        return Made(name=names[-1], digest=digest)

    def _check_names(
        self, prepared: Prepared, *, pushes: bool, tags: Sequence[str], version: str | None
    ) -> None:
        """Refuse tags and a version before anything is built for them."""
        if not pushes:
            if tags or version is not None:
                raise UsageError(
                    "tags and versions are given in the registry", where="--tag", remedy="add --push"
                )
            return
        if prepared.replaced and (version is not None or RELEASED & set(tags)):
            raise UsageError(
                f"{prepared.replaced[0]} is taken from elsewhere: that is no release",
                where="--version" if version is not None else "--tag",
                remedy="release what the stack file says, without --with; give it a tag such as pr-123",
            )
        check_tags(self.client, f"{self.repository}:{prepared.tag}", tags=tags, version=version)

    def test(self, prepared: Prepared, tests: Sequence[ComponentTests]) -> None:
        """Build what tests run in, and run them; nothing is pushed or gets a tag.

        Raises:
            SpyreCiError: a step or a test failed, or the engine refuses.
        """
        if self.tester is not None:
            with self._order(prepared, pushes=False) as order:
                self.tester.run(tests, order)

    def _build(
        self,
        prepared: Prepared,
        name: str,
        tests: Sequence[ComponentTests],
        *,
        pushes: bool,
        against: str | None,
    ) -> None:
        """Build an image, and give it its name once it is verified and its tests passed."""
        repository, _, tag = name.rpartition(":")
        try:
            with self._order(prepared, pushes=pushes) as order:
                built = build(self.client, order, echo=self.echo, clock=self.clock)
                known = prepared.resolved.pytorch.commit
                image = label_commit(self.client, built.image, known=known, echo=self.echo, clock=self.clock)
                self.gate.pass_built(image, prepared.resolved, name=name, against=against)
                if self.tester is not None:
                    self.tester.run(tests, order)
        except BaseException:
            # That of an earlier build would look as if this one had passed.
            with suppress(APIError):
                self.client.api.remove_image(name, noprune=True)
            raise
        self.client.api.tag(image, repository, tag)

    @contextmanager
    def _order(self, prepared: Prepared, *, pushes: bool) -> Iterator[Order]:
        """How the image is built, with the components' files and PyTorch's wheel at hand in the block."""
        settings = settings_of(self.environ, certificates=self.certificates)
        pytorch = prepared.resolved.pytorch
        if pytorch.git is not None:
            wheels = WheelMaker(
                client=self.client,
                repository=self.repository,
                environ=self.environ,
                settings=settings,
                echo=self.echo,
                clock=self.clock,
            )
            wheels.provide(prepared.resolved, pushes=pushes)
        parts = prepared.resolved.components
        files = {one.sha256: prepared.folder / one.path for part in parts for one in part.files}
        revision = prepared.resolved.revision
        with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as folder:
            sources = put_sources(parts, Path(folder), environ=self.environ, echo=self.echo)
            for part in parts:
                git = part.component.git
                if git is not None and git.containerfile is not None:
                    source = sources[part.component.name]
                    order = own_order(part, prepared.resolved, source, environ=self.environ)
                    with order as own:
                        build(self.client, own, echo=self.echo, clock=self.clock)
            yield Order(
                containerfile=prepared.containerfile,
                sources=sources,
                target="runtime",
                args={INDEX_ARGUMENT: index_key(self.environ)},
                labels={"org.opencontainers.image.revision": revision} if revision else {},
                files=files,
                settings=settings,
            )


@contextmanager
def own_order(
    part: ResolvedComponent, resolved: ResolvedStack, source: Path, *, environ: Mapping[str, str]
) -> Iterator[Order]:
    """The order for that image, with its context at hand while the block runs.

    Args:
        part: has `containerfile`.
        resolved: its stack.
        source: the component's files.
        environ: the build's proxies are in it.

    Raises:
        MissingInputError: there is no such Containerfile.
    """
    git = part.component.git
    assert git is not None  # noqa: S101  # the caller chose
    folder = source / (git.subfolder or "")
    # Links are the component's word, and lead where it likes.
    for path in (folder, folder / str(git.containerfile)):
        if not path.resolve().is_relative_to(source.resolve()):
            raise CommandError(
                f"{path.relative_to(source)} of {part.component.name} is a link that leads out of it",
                where=part.folder or f"{git.url} at {part.commit}",
                remedy="name a folder and a Containerfile that are there themselves",
            )
    if not (folder / str(git.containerfile)).is_file():
        raise MissingInputError(
            f"{part.component.name} has no {git.containerfile}",
            where=part.folder or f"{git.url} at {part.commit}",
            remedy="mend `containerfile`, or `subfolder` before it",
        )
    with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as copy:
        # Its tests may want what its .dockerignore leaves out.
        context = Path(shutil.copytree(folder, Path(copy) / "context", symlinks=True))
        leave_out_ignored(context)
        yield Order(
            containerfile=str(git.containerfile),
            sources={},
            target=git.target,
            tag=own_image(part, resolved),
            folder=context,
            args={**proxies_of(environ), **params_of(resolved.stack, part.component)},
        )
