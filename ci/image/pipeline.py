"""The way of an image: name everything exactly, find it or build it, check it, test it, push it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import docker

from ci.core.container_engine import fetch, has_image
from ci.core.errors import CommandError, MissingInputError, UsageError
from ci.core.extras import wanted
from ci.core.findings import refuse_failed
from ci.core.registry import by_digest, find_digest, tags_of
from ci.core.repositories import revision_of
from ci.image.build_settings import index_arguments, index_key, write_secrets
from ci.image.builder import ImageBuilder, Order
from ci.image.component_tests import ComponentTests
from ci.image.containerfile import COMMIT_LABEL, image_of, labels_of, render
from ci.image.model import Platform
from ci.image.override import Override, overridden
from ci.image.release_tags import LATEST, UNTESTED, check_expected, check_tags, check_version, release_tags
from ci.image.resolve import Resolver
from ci.image.resolved import ResolvedComponent, ResolvedStack, identity_of
from ci.image.smoke import SmokeCheck
from ci.image.sources import write_context
from ci.image.stack import params_of, read_stack
from ci.image.testing import Tester
from test_selection.files import atomic_writer

# Tags that others take for what the stack file says.
RELEASED = frozenset({LATEST, "nightly"})
REVISION_LABEL = "org.opencontainers.image.revision"


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
class Release:
    """What is done with an image that passed.

    Attributes:
        pushes: whether it goes to the registry.
        tags: that move to it there.
        version: it is released as; None: it is no release.
        expected: the digest the registry has to have it by already; None: any.
    """

    pushes: bool = False
    tags: Sequence[str] = ()
    version: str | None = None
    expected: str | None = None


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


def prepare(
    file: Path,
    *,
    variant: str,
    platform: Platform,
    environ: Mapping[str, str],
    overrides: Sequence[Override] = (),
) -> Prepared:
    """Name everything exactly and render it; no engine is asked.

    Args:
        file: of the stack.
        variant: its PyTorch.
        platform: it is built for.
        environ: git's, pip's and the build's.
        overrides: components that are taken from elsewhere.

    Raises:
        SpyreCiError: the file, an override, a ref, an image or a registry cannot be taken.
    """
    folders = {one.name: one.folder for one in overrides if one.folder is not None}
    resolved = Resolver(folder=file.parent, environ=environ, folders=folders).resolve(
        overridden(read_stack(file), overrides),
        variant=variant,
        platform=platform,
        revision=revision_of(file.parent, environ=environ),
    )
    containerfile = render(resolved)
    return Prepared(
        resolved=resolved,
        containerfile=containerfile,
        tag=identity_of(resolved, containerfile, index=index_key(environ)),
        folder=file.parent,
        replaced=tuple(one.name for one in overrides),
    )


def check_release(prepared: Prepared, release: Release, *, tests: bool) -> None:
    """Refuse what an image cannot be released as, before anything is built for it; pure.

    Args:
        prepared: the image.
        release: what is asked for.
        tests: whether its tests run.

    Raises:
        UsageError: a tag or the version cannot be taken, or is for another image than this.
    """
    named = bool(release.tags) or release.version is not None
    if named and not release.pushes:
        raise UsageError("tags and versions are given in the registry", where="--tag", remedy="add --push")
    if prepared.replaced and (release.version is not None or RELEASED & set(release.tags)):
        raise UsageError(
            f"{prepared.replaced[0]} is taken from elsewhere: that is no release",
            where="--version" if release.version is not None else "--tag",
            remedy="release what the stack file says, without --with; give it a tag such as pr-123",
        )
    check_tags(release.tags)
    if release.version is not None:
        check_version(release.version)
    if named and not tests:
        raise UsageError(
            "an image whose tests did not run gets no tag that moves and no version",
            where="--no-tests",
            remedy="leave out --no-tests, or --tag and --version",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Builds, tests and pushes.

    Attributes:
        client: the engine.
        builder: its command.
        repository: registry and name, without a tag.
        environ: git's and the build's settings.
        certificates: a company's bundle; None: the image's own.
        tester: runs the components' tests; None: they are left out.
        smoke: checks what was built.
        sbom: file the SBOM goes to.
        echo: takes lines for people.
    """

    client: docker.DockerClient
    builder: ImageBuilder
    repository: str
    environ: Mapping[str, str]
    certificates: Path | None
    tester: Tester | None
    smoke: SmokeCheck
    sbom: Path
    echo: Callable[[str], None]

    def make(self, prepared: Prepared, tests: Sequence[ComponentTests], release: Release) -> Made:
        """Find the image, else build, check and test it; push it where that is asked for.

        One that is in the registry by its own tag passed its tests when it was pushed. One whose tests are
        left out has another tag, which says so.

        Raises:
            UsageError: see `check_release`.
            SpyreCiError: a step, a test or a check failed, or the engine or the registry refuses; nothing is
                pushed then, and the image has no tag.
        """
        check_release(prepared, release, tests=self.tester is not None)
        load_sbom()
        names = [f"{self.repository}:{prepared.tag}"]
        if self.tester is None:
            names.append(f"{self.repository}:{UNTESTED}{prepared.tag}")
        digests = {name: find_digest(name) for name in names} if release.pushes else {}
        if release.expected is not None:
            check_expected(names[0], digests.get(names[0]), release.expected)
        if release.version is not None:
            self._check_free(f"{self.repository}:{release.version}", digests.get(names[0]))
        for name in names:
            if digests.get(name) or (not release.pushes and has_image(self.client, name)):
                self.echo(
                    f"{name} is {'in the registry' if release.pushes else 'on the engine'}: nothing is built"
                )
                return self._release(Made(name=name, digest=digests.get(name) or "", found=True), release)
        self._build(prepared, names[-1], tests, release)
        digest = self.builder.push(names[-1]) if release.pushes else ""
        return self._release(Made(name=names[-1], digest=digest), release)

    def test(self, prepared: Prepared, tests: Sequence[ComponentTests]) -> None:
        """Build what tests run in, and run them; nothing is pushed or gets a tag.

        Raises:
            SpyreCiError: a step or a test failed, or the engine refuses.
        """
        if self.tester is not None:
            with self._order(prepared) as order:
                self.tester.run(tests, order)

    def _build(
        self, prepared: Prepared, name: str, tests: Sequence[ComponentTests], release: Release
    ) -> None:
        """Build an image, and give it its name once it is checked and its tests passed."""
        resolved = prepared.resolved
        with self._order(prepared) as order:
            # Built once more with the label, out of the cache, where only the image knows its PyTorch.
            commit = resolved.pytorch.commit or self.smoke.torch_commit(self.builder.build(order))
            self.echo(f"PyTorch {commit}")
            revision = {REVISION_LABEL: resolved.revision} if resolved.revision else {}
            labels = {COMMIT_LABEL: commit, **revision}
            image = self.builder.build(replace(order, labels=labels))
            against = f"{self.repository}:{next(iter(release.tags), LATEST)}" if release.pushes else None
            findings = self.smoke.check(image, labels={**labels_of(resolved), **labels}, against=against)
            refuse_failed(name, findings)
            write_sbom(self.client, image, self.sbom, name=name, environ=self.environ, stack=resolved)
            self.echo(f"its SBOM is in {self.sbom}")
            if self.tester is not None:
                self.tester.run(tests, order)
        self.builder.name_image(image, name)

    def _release(self, made: Made, release: Release) -> Made:
        """Let tags point to an image that the registry has."""
        moving = list(release.tags)
        if release.version is not None:
            highest = release_tags(release.version, _tags(self.repository))
            # Of a release, `latest` moves by its version alone.
            moving = [release.version, *highest, *(tag for tag in moving if tag not in {*highest, LATEST})]
        if moving and made.found:
            fetch(self.client, by_digest(made.name, made.digest))
            self.builder.name_image(by_digest(made.name, made.digest), made.name)
        for tag in moving:
            name = f"{self.repository}:{tag}"
            self.builder.name_image(made.name, name)
            if self.builder.push(name) != made.digest:
                raise CommandError(f"{name} is not what was pushed", where=self.repository)
        return made

    def _check_free(self, name: str, own: str | None) -> None:
        there = find_digest(name)
        if there is not None and there != own:
            raise CommandError(
                f"{name} is there already, with {there}",
                where="--version",
                remedy="a version never moves: release the next one",
            )

    @contextmanager
    def _order(self, prepared: Prepared) -> Iterator[Order]:
        """How the image is built, with its context and secrets at hand in the block."""
        resolved = prepared.resolved
        with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as folder:
            context = Path(folder) / "context"
            write_context(
                resolved,
                prepared.containerfile,
                packages=prepared.folder,
                context=context,
                environ=self.environ,
                echo=self.echo,
            )
            for part in resolved.components:
                if part.component.git is not None and part.component.git.containerfile is not None:
                    self.builder.build(own_order(part, resolved, context))
            yield Order(
                context=context,
                target="runtime",
                args=index_arguments(self.environ),
                secrets=write_secrets(Path(folder), self.environ, self.certificates),
            )


def own_order(part: ResolvedComponent, resolved: ResolvedStack, context: Path) -> Order:
    """The order for the image of a component's own Containerfile.

    Raises:
        MissingInputError: there is none, or it is a link that leads out of the component.
    """
    git = part.component.git
    assert git is not None  # noqa: S101  # the caller chose
    source = context / "sources" / part.component.name
    folder = source / (git.subfolder or "")
    path = folder / str(git.containerfile)
    # Links are the component's word, and lead where it likes.
    if not path.is_file() or not path.resolve().is_relative_to(source.resolve()):
        raise MissingInputError(
            f"{part.component.name} has no {git.containerfile}",
            where=part.folder or f"{git.url} at {part.commit}",
            remedy="mend `containerfile`, or `subfolder` before it; a link has to stay in the component",
        )
    return Order(
        context=folder,
        containerfile=str(git.containerfile),
        target=git.target,
        tag=image_of(part, resolved),
        args=params_of(resolved.stack, part.component),
    )


def write_sbom(
    client: docker.DockerClient,
    image: str,
    path: Path,
    *,
    name: str,
    environ: Mapping[str, str],
    stack: ResolvedStack | None = None,
) -> None:
    """Write the SBOM of an image.

    Args:
        client: the engine, which has it.
        image: its name or id.
        path: of the file.
        name: that the image is called.
        environ: SOURCE_DATE_EPOCH is read from it.
        stack: what the image is made of; None: not known.
    """
    sbom = load_sbom()
    attrs = client.images.get(image).attrs
    created = sbom.created_at(str(attrs.get("Created", "")), environ.get("SOURCE_DATE_EPOCH", ""))
    described = sbom.Described(name=name, image=str(attrs["Id"]), created=created, stack=stack)
    text = sbom.sbom_of(described, sbom.lines_of(client, image))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as file:
        file.write(text.encode())


def load_sbom() -> ModuleType:
    """The module that writes SBOMs; that its library is not there is said before an hour's build."""
    with wanted("an SBOM wants", extra="image"):
        from ci.image import sbom  # noqa: PLC0415  # an extra, whose import takes a second
    return sbom


def _tags(repository: str) -> list[str]:
    try:
        return tags_of(repository)
    except MissingInputError:
        return []
