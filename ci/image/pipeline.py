"""The way of an image: name everything exactly, find it or build it, check it, test it, push it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import docker

from ci.config.load import Settings
from ci.core.container_engine import fetch, has_image
from ci.core.errors import CommandError, MissingInputError
from ci.core.extras import wanted
from ci.core.registry import by_digest, find_digest, tags_of
from ci.core.repositories import revision_of
from ci.image.build_inputs import index_arguments, index_key, write_context, write_secrets
from ci.image.builder import REVISION_LABEL, ImageBuilder, Order
from ci.image.component_tests import ComponentTests, planned_tests
from ci.image.containerfile import COMMIT_LABEL, identity_of, image_of, labels_of, render
from ci.image.override import Override, overridden
from ci.image.release import LATEST, Release, check_expected, check_release, release_tags
from ci.image.resolve import ResolvedComponent, ResolvedStack, Resolver
from ci.image.smoke import SmokeCheck, commit_told
from ci.image.stack import read_stack
from ci.image.testing import run_tests
from test_selection.files import atomic_writer


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


def prepare(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    variant: str | None = None,
    overrides: Sequence[Override] = (),
) -> Prepared:
    """Name everything exactly and render it; no engine is asked.

    Args:
        settings: which stack file, variant and platform.
        environ: git's, pip's and the build's.
        variant: its PyTorch; None: that of the settings.
        overrides: components that are taken from elsewhere.

    Raises:
        SpyreCiError: the file, an override, a ref, an image or a registry cannot be taken.
    """
    image = settings.model.image
    file = settings.resolve(image.stack)
    folders = {one.name: one.folder for one in overrides if one.folder is not None}
    resolved = Resolver(folder=file.parent, environ=environ, folders=folders).resolve(
        overridden(read_stack(file), overrides),
        variant=variant or image.variant,
        platform=image.platform,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Builds, tests and pushes one image.

    Attributes:
        client: the engine.
        settings: what builds, where images go, and what their checks take.
        prepared: the image.
        environ: git's and the build's.
        echo: takes lines for people.
        results: folder that takes the tests' results; None: below the state folder.
        sbom: file the SBOM goes to; None: below the state folder.
    """

    client: docker.DockerClient
    settings: Settings
    prepared: Prepared
    environ: Mapping[str, str]
    echo: Callable[[str], None]
    results: Path | None = None
    sbom: Path | None = None

    @property
    def repository(self) -> str:
        """Registry and name, without a tag."""
        return self.settings.model.image.repository or self.prepared.resolved.stack.name

    @property
    def builder(self) -> ImageBuilder:
        """What builds and pushes."""
        image = self.settings.model.image
        return ImageBuilder(
            name=image.builder,
            environ=self.environ,
            echo=self.echo,
            network=image.network,
            platform=image.platform,
            cache=image.cache,
        )

    @property
    def planned(self) -> list[ComponentTests]:
        """All tests of the stack."""
        model = self.settings.model
        return planned_tests(self.prepared.resolved.stack, cards=model.image.devices, device=model.device)

    def make(self, release: Release) -> Made:
        """Find the image, else build, check and test it; push it where that is asked for.

        One that is in the registry by its own tag passed its tests when it was pushed.

        Raises:
            UsageError: see `check_release`.
            SpyreCiError: a step, a test or a check failed, or the engine or the registry refuses; nothing is
                pushed then, and the image has no tag.
        """
        check_release(release, replaced=self.prepared.replaced)
        _sbom_module()
        name = f"{self.repository}:{self.prepared.tag}"
        digest = find_digest(name) if release.pushes else None
        if release.expected is not None:
            check_expected(name, digest, release.expected)
        if release.version is not None:
            self._check_free(f"{self.repository}:{release.version}", digest)
        found = digest is not None if release.pushes else has_image(self.client, name)
        if found:
            self.echo(
                f"{name} is {'in the registry' if release.pushes else 'on the engine'}: nothing is built"
            )
            if self.sbom is not None:
                # The engine may have another build by this name, that was not pushed.
                there = by_digest(name, digest) if digest else name
                fetch(self.client, there)
                self._write_sbom(there, name)
        else:
            self._build(name, release)
            digest = self.builder.push(name) if release.pushes else None
        made = Made(name=name, digest=digest or "", found=found)
        self._move_tags(made, release)
        return made

    def test(self, chosen: Sequence[ComponentTests]) -> None:
        """Build what tests run in, and run them; nothing is pushed or gets a tag.

        Raises:
            SpyreCiError: a step or a test failed, or the engine refuses.
        """
        with self._order() as order:
            self._run_tests(chosen, order)

    def _run_tests(self, chosen: Sequence[ComponentTests], order: Order) -> None:
        results = self.results or self.settings.state_dir / "image-tests" / self.prepared.tag
        run_tests(self.client, self.builder, chosen, order, results)

    def _build(self, name: str, release: Release) -> None:
        """Build the image, and give it its name once it is checked and its tests passed."""
        resolved, builder = self.prepared.resolved, self.builder
        smoke = SmokeCheck(client=self.client, settings=self.settings, echo=self.echo)
        with self._order() as order:
            commit = resolved.pytorch.commit
            if not commit:
                # Built once more with the label, out of the cache, where only the image knows its PyTorch.
                unlabelled = builder.build(order)
                commit = commit_told(smoke.ask_torch(unlabelled), unlabelled)
            self.echo(f"PyTorch {commit}")
            labels = {COMMIT_LABEL: commit}
            if resolved.revision:
                labels[REVISION_LABEL] = resolved.revision
            image = builder.build(replace(order, labels=labels))
            against = f"{self.repository}:{next(iter(release.tags), LATEST)}" if release.pushes else None
            smoke.verify(image, {**labels_of(resolved), **labels}, name=name, against=against)
            self._write_sbom(image, name)
            self._run_tests(self.planned, order)
        builder.name_image(image, name)

    def _move_tags(self, made: Made, release: Release) -> None:
        """Let tags point to the image that the registry has."""
        moving = list(release.tags)
        if release.version is not None:
            try:
                there = tags_of(self.repository)
            except MissingInputError:
                there = []
            highest = release_tags(release.version, there)
            # Of a release, `latest` moves by its version alone.
            moving = [release.version, *highest, *(tag for tag in moving if tag not in {*highest, LATEST})]
        if moving and made.found:
            fetch(self.client, by_digest(made.name, made.digest))
            self.builder.name_image(by_digest(made.name, made.digest), made.name)
        for tag in moving:
            name = f"{self.repository}:{tag}"
            self.builder.name_image(made.name, name)
            if self.builder.push(name) != made.digest:
                raise CommandError(
                    f"{name} is not what was pushed",
                    where=self.repository,
                    remedy="it was moved by another push at the same time: try again",
                )

    def _check_free(self, name: str, own: str | None) -> None:
        there = find_digest(name)
        if there is not None and there != own:
            raise CommandError(
                f"{name} already exists, with {there}",
                where="--version",
                remedy="a version never moves: release the next one",
            )

    @contextmanager
    def _order(self) -> Iterator[Order]:
        """How the image is built, with its context and secrets at hand in the block."""
        resolved, certificates = self.prepared.resolved, self.settings.model.image.certificates
        with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as folder:
            context = Path(folder) / "context"
            write_context(
                resolved,
                self.prepared.containerfile,
                packages=self.prepared.folder,
                context=context,
                environ=self.environ,
                echo=self.echo,
            )
            for part in resolved.components:
                if part.component.git is not None and part.component.git.containerfile is not None:
                    self.builder.build(own_order(part, resolved, context))
            bundle = self.settings.resolve(certificates) if certificates else None
            yield Order(
                context=context,
                target="runtime",
                args=index_arguments(self.environ),
                secrets=write_secrets(Path(folder), self.environ, bundle),
            )

    def _write_sbom(self, image: str, name: str) -> None:
        path = self.sbom or self.settings.state_dir / "image" / f"{self.prepared.tag}.cdx.json"
        epoch = self.environ.get("SOURCE_DATE_EPOCH", "")
        text: str = _sbom_module().make_sbom(
            self.client, image, name=name, stack=self.prepared.resolved, epoch=epoch
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(path) as file:
            file.write(text.encode())
        self.echo(f"its SBOM is in {path}")


def own_order(part: ResolvedComponent, resolved: ResolvedStack, context: Path) -> Order:
    """The order for the image of a component's own Containerfile, whose folder is all that it is given."""
    git = part.component.git
    assert git is not None  # noqa: S101  # the caller chose
    source = context / "sources" / part.component.name
    return Order(
        context=source / (git.subfolder or ""),
        containerfile=str(git.containerfile),
        target=git.target,
        tag=image_of(part, resolved),
        args=resolved.stack.params_of(part.component),
        root=source,
        source=part.folder or f"{part.component.name}, {git.url} at {part.revision}",
    )


def _sbom_module() -> ModuleType:
    """What makes SBOMs; that its library is not found is said before an hour's build."""
    with wanted("an SBOM needs", extra="image"):
        from ci.image import sbom  # noqa: PLC0415  # an extra, whose import takes a second
    return sbom
