"""`spyre-ci image`: build, test and open the runtime image."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from docker import DockerClient

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.load import Settings
from ci.core.container_engine import engine, fetch
from ci.core.container_shell import Caller, become, find_client, shell_command
from ci.core.errors import SettingsError, UsageError
from ci.core.findings import refuse_failed
from ci.image.builder import ImageBuilder
from ci.image.component_tests import Device, chosen_tests, planned_tests
from ci.image.override import FORM_HERE, overrides_in, parse_with, read_text
from ci.image.pipeline import Pipeline, Prepared, Release, prepare, write_sbom
from ci.image.smoke import SmokeCheck
from ci.image.stack import read_stack
from ci.image.testing import Tester
from ci.image.tree import origin_of, put_tree
from test_selection.files import document_text

app = typer.Typer(help="The runtime image, from its components to the registry.", no_args_is_help=True)

Stack = Annotated[
    Path | None, typer.Option("--stack", metavar="FILE", help="The stack file; default: image.stack.")
]
Variant = Annotated[str | None, typer.Option(help="Which PyTorch; default: image.variant.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where JUnit goes, by component and kind; default: below `state`."),
]
With = Annotated[
    list[str] | None, typer.Option("--with", metavar=FORM_HERE, help="Take a component from elsewhere.")
]
TestWith = Annotated[
    Path | None,
    typer.Option("--test-with", metavar="FILE", help="A pull request's text: take its Test-With lines."),
]
Sbom = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where its SBOM goes, CycloneDX; default: below `state`.")
]
Image = Annotated[
    str | None, typer.Argument(metavar="IMAGE|TAG", help="Its name or a tag; default: what the stack gives.")
]


@app.command()
def build(
    ctx: typer.Context,
    stack: Stack = None,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    print_: Annotated[
        bool,
        typer.Option("--print", help="Print the Containerfile, every part named exactly; build nothing."),
    ] = False,
    push: Annotated[bool, typer.Option("--push", help="Push it, and find it in the registry.")] = False,
    tag: Annotated[list[str] | None, typer.Option(help="A tag that moves to it, with --push.")] = None,
    version: Annotated[
        str | None,
        typer.Option(help="Release it as X.Y.Z; X.Y, X and latest move where it is their highest."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Push and tag nothing unless the registry has this very image."),
    ] = None,
    no_tests: Annotated[
        bool, typer.Option("--no-tests", help="Leave the tests out: the tag says so, and no other moves.")
    ] = False,
    results: Results = None,
    sbom: Sbom = None,
    as_json: Json = False,
) -> None:
    """Build and test the image, unless the registry has what would come out of it; push it where asked to.

    Example: spyre-ci image build --variant pinned --print
    Example: spyre-ci image build --variant pinned --results results
    """
    settings = settings_from_context(ctx)
    if expect is not None and not push:
        raise UsageError("it is the registry's image that is expected", where="--expect", remedy="add --push")
    if push and settings.model.image.repository is None:
        raise SettingsError(
            "there is nowhere to push to",
            where="image.repository",
            remedy="set it to registry/namespace/name",
        )
    prepared = _prepared(settings, stack, variant, with_, test_with)
    told = _told(prepared)
    if print_:
        told |= {"image": prepared.tag, "digest": "", "found": False}
        typer.echo(
            document_text("image-build", told, on_one_line=True) if as_json else prepared.containerfile,
            nl=as_json,
        )
        return
    with engine(os.environ) as client:
        pipeline = _pipeline(settings, client, prepared, results, sbom, tests=not no_tests)
        planned = planned_tests(prepared.resolved, _device(settings))
        made = pipeline.make(
            prepared, planned, Release(pushes=push, tags=tag or (), version=version, expected=expect)
        )
        if made.found and sbom is not None:
            # Nothing was built, so nobody wrote it yet.
            fetch(client, made.name)
            write_sbom(client, made.name, sbom, name=made.name, environ=os.environ, stack=prepared.resolved)
    if as_json:
        told |= {"image": made.name, "digest": made.digest, "found": made.found}
        typer.echo(document_text("image-build", told, on_one_line=True))
        return
    typer.echo(f"{made.name} {made.digest}".rstrip())


@app.command("test")
def run_tests(
    ctx: typer.Context,
    image: Annotated[
        str | None, typer.Argument(metavar="[IMAGE|TAG]", help="Check this image instead of running tests.")
    ] = None,
    stack: Stack = None,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    component: Annotated[list[str] | None, typer.Option(help="Only this component's; repeatable.")] = None,
    on_device: Annotated[
        bool, typer.Option("--on-device", help="Only the tests that want a device.")
    ] = False,
    results: Results = None,
    sbom: Sbom = None,
) -> None:
    """Run the components' tests where a build would; of an IMAGE, check how it starts and what it is.

    Example: spyre-ci image test --component flex
    """
    settings = settings_from_context(ctx)
    with engine(os.environ) as client:
        if image is not None:
            name = _name(image, None, settings, stack)
            fetch(client, name)
            refuse_failed(name, _smoke(settings, client).check(name, labels={}))
            if sbom is not None:
                write_sbom(client, name, sbom, name=name, environ=os.environ)
            return
        prepared = _prepared(settings, stack, variant, with_, test_with)
        planned = planned_tests(prepared.resolved, _device(settings))
        chosen = chosen_tests(planned, components=component or (), with_device=on_device)
        _pipeline(settings, client, prepared, results, sbom, tests=True).test(prepared, chosen)


@app.command()
def tree(
    ctx: typer.Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Its name; pulled where it is not here.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New, empty, or with that tree already.")],
    as_json: Json = False,
) -> None:
    """Put PyTorch's tests of an image's very commit into a folder; the main job takes it by --pytorch-src.

    Example: spyre-ci image tree registry.example.com/spyre/runtime:main pytorch
    """
    url = settings_from_context(ctx).model.image.pytorch_url
    with engine(os.environ) as client:
        origin = origin_of(client, image, url=url)
    put_tree(origin, folder, environ=os.environ, echo=_echo)
    if as_json:
        told = {"commit": origin.commit, "url": origin.url, "folder": folder}
        typer.echo(document_text("image-tree", told, on_one_line=True))
        return
    typer.echo(origin.commit)


@app.command()
def shell(
    ctx: typer.Context,
    image: Image = None,
    stack: Stack = None,
    variant: Variant = None,
    network: Annotated[
        str | None, typer.Option(help="none, host or a network's name; default: the engine's.")
    ] = None,
) -> None:
    """Open a shell in the image, with the checkout at /workspace; what is written there is the caller's.

    Example: spyre-ci image shell --network none
    """
    settings = settings_from_context(ctx)
    words = find_client(os.environ, shutil.which)
    prepared = _prepared(settings, stack, variant, None, None) if image is None else None
    name = _name(image, prepared, settings, stack)
    with engine(os.environ) as client:
        fetch(client, name)
    caller = Caller(
        user=os.getuid(), group=os.getgid(), checkout=settings.base.resolve(), terminal=sys.stdin.isatty()
    )
    become(shell_command(words, name, caller, network=network))


def _echo(line: str) -> None:
    """A line for people, beside what machines read."""
    typer.echo(line, err=True)


def _prepared(
    settings: Settings,
    stack: Path | None,
    variant: str | None,
    with_: list[str] | None,
    test_with: Path | None,
) -> Prepared:
    """An image before it is built, by what flags say of it, else by settings."""
    image = settings.model.image
    overrides = [parse_with(one, here=Path.cwd()) for one in with_ or ()]
    return prepare(
        stack or settings.resolve(image.stack),
        variant=variant or image.variant,
        platform=image.platform,
        environ=os.environ,
        overrides=[*overrides, *(overrides_in(read_text(test_with)) if test_with else ())],
    )


def _told(prepared: Prepared) -> dict[str, object]:
    """What an image is made of, for machines."""
    resolved = prepared.resolved
    return {
        "tag": prepared.tag,
        "variant": resolved.variant,
        "base": resolved.base,
        "pytorch": resolved.pytorch.commit or resolved.pytorch.requirement,
        "components": dict(resolved.revisions),
        "containerfile": prepared.containerfile,
    }


def _device(settings: Settings) -> Device:
    """What tests with a device get."""
    said = settings.model.device
    return Device(
        cards=settings.model.image.devices, refuse_ops=said.refuse_ops, refuse_dtypes=said.refuse_dtypes
    )


def _smoke(settings: Settings, client: DockerClient) -> SmokeCheck:
    image = settings.model.image
    return SmokeCheck(
        client=client,
        role_timeout_s=image.role_timeout_s,
        most_percent=image.max_growth_percent,
        model=settings.resolve(image.model) if image.model else None,
        echo=_echo,
        clock=time.monotonic,
        sleep=time.sleep,
    )


def _pipeline(
    settings: Settings,
    client: DockerClient,
    prepared: Prepared,
    results: Path | None,
    sbom: Path | None,
    *,
    tests: bool,
) -> Pipeline:
    image = settings.model.image
    builder = ImageBuilder(
        name=image.builder,
        environ=os.environ,
        echo=_echo,
        network=image.network,
        platform=image.platform,
        cache=image.cache,
    )
    results = results or settings.state_dir / "image-tests" / prepared.tag
    tester = Tester(client=client, builder=builder, results=results, echo=_echo, clock=time.monotonic)
    return Pipeline(
        client=client,
        builder=builder,
        repository=image.repository or prepared.resolved.stack.name,
        environ=os.environ,
        certificates=settings.resolve(image.certificates) if image.certificates else None,
        tester=tester if tests else None,
        smoke=_smoke(settings, client),
        sbom=sbom or settings.state_dir / "image" / f"{prepared.tag}.cdx.json",
        echo=_echo,
    )


def _name(given: str | None, prepared: Prepared | None, settings: Settings, stack: Path | None) -> str:
    """An image's whole name, of a name, of a tag alone, or of what a stack gives."""
    if given is not None and set(given) & set("/:@"):
        return given
    image = settings.model.image
    repository = image.repository or read_stack(stack or settings.resolve(image.stack)).name
    return f"{repository}:{given if prepared is None else prepared.tag}"
