"""`spyre-ci image`: build, test and open the runtime image."""

from __future__ import annotations

import os
import shutil
import sys
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
from ci.image.component_tests import chosen_tests
from ci.image.override import FORM_HERE, overrides_in, parse_override
from ci.image.pipeline import Pipeline, Prepared, prepare
from ci.image.release import Release
from ci.image.smoke import SmokeCheck
from ci.image.tree import origin_of, put_tree
from test_selection.files import document_text

app = typer.Typer(no_args_is_help=True)

Variant = Annotated[str | None, typer.Option(help="Variant of the stack; default: `image.variant`.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for JUnit, by component and kind; default: below `state`."),
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar=FORM_HERE, help="Take a component from this source."),
]
TestWith = Annotated[
    Path | None,
    typer.Option("--test-with", metavar="FILE", help="Take the Test-With lines of a pull request's text."),
]


@app.command()
def build(
    ctx: typer.Context,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    print_: Annotated[
        bool,
        typer.Option("--print", help="Print the Containerfile, with every part pinned; build nothing."),
    ] = False,
    push: Annotated[bool, typer.Option("--push", help="Push it, unless the registry has it.")] = False,
    tag: Annotated[list[str] | None, typer.Option(help="Also push it as this tag; needs --push.")] = None,
    version: Annotated[
        str | None,
        typer.Option(help="Release it as X.Y.Z; move X.Y, X and latest if it is their highest version."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Fail unless the registry already has this very image."),
    ] = None,
    results: Results = None,
    sbom: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for its SBOM (CycloneDX); default: below `state`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build and test the image unless the registry has it already; push it with --push.

    Example: spyre-ci image build --variant pinned --print
    Example: spyre-ci image build --variant pinned --results results
    """
    settings = settings_from_context(ctx)
    if push and settings.model.image.repository is None:
        remedy = "set it to registry/namespace/name"
        raise SettingsError("there is nowhere to push to", where="image.repository", remedy=remedy)
    prepared = _prepared(settings, variant, with_, test_with)
    told = {"image": prepared.tag, "digest": "", "found": False}
    text = prepared.containerfile
    if not print_:
        with engine(os.environ) as client:
            made = _pipeline(settings, client, prepared, results, sbom).make(
                Release(pushes=push, tags=tag or (), version=version, expected=expect)
            )
        told = {"image": made.name, "digest": made.digest, "found": made.found}
        text = f"{made.name} {made.digest}".rstrip() + "\n"
    if as_json:
        resolved = prepared.resolved
        told |= {
            "tag": prepared.tag,
            "variant": resolved.variant,
            "base": resolved.base,
            "pytorch": resolved.pytorch.exact,
            "components": dict(resolved.revisions),
            "containerfile": prepared.containerfile,
        }
        text = document_text("image-build", told, on_one_line=True) + "\n"
    typer.echo(text, nl=False)


@app.command("test")
def run_tests(
    ctx: typer.Context,
    image: Annotated[
        str | None, typer.Argument(metavar="[IMAGE]", help="Check this image instead of running tests.")
    ] = None,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    component: Annotated[list[str] | None, typer.Option(help="Component to test; repeatable.")] = None,
    on_device: Annotated[bool, typer.Option("--on-device", help="Only tests that need a device.")] = False,
    results: Results = None,
) -> None:
    """Run the components' tests as a build would; for an IMAGE, run the smoke check.

    Example: spyre-ci image test --component flex
    """
    settings = settings_from_context(ctx)
    if image is not None and any((variant, with_, test_with, component, on_device, results)):
        what, remedy = "an existing image is checked without options", "leave out IMAGE, or the options"
        raise UsageError(what, where="IMAGE", remedy=remedy)
    with engine(os.environ) as client:
        if image is not None:
            fetch(client, image)
            SmokeCheck(client=client, settings=settings, echo=_echo).verify(image, {}, name=image)
            return
        prepared = _prepared(settings, variant, with_, test_with)
        pipeline = _pipeline(settings, client, prepared, results)
        pipeline.test(chosen_tests(pipeline.planned, components=component or (), with_device=on_device))


@app.command()
def tree(
    ctx: typer.Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Name of the image; pulled if missing.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New, empty, or with the same tree.")],
    as_json: Json = False,
) -> None:
    """Check out PyTorch's tests at an image's commit into a folder, for --pytorch-src.

    Example: spyre-ci image tree registry.example.com/spyre/runtime:main pytorch
    """
    with engine(os.environ) as client:
        fetch(client, image)
        labels = client.images.get(image).labels
    origin = origin_of(labels, image, url=settings_from_context(ctx).model.image.pytorch_url)
    put_tree(origin, folder, environ=os.environ, echo=_echo)
    told = {"commit": origin.commit, "url": origin.url, "folder": folder}
    typer.echo(document_text("image-tree", told, on_one_line=True) if as_json else origin.commit)


@app.command()
def shell(
    ctx: typer.Context,
    image: Annotated[
        str | None, typer.Argument(metavar="[IMAGE]", help="Name of the image; default: the stack's.")
    ] = None,
    variant: Variant = None,
    network: Annotated[
        str | None, typer.Option(help="Network: none, host or a name; default: the engine's.")
    ] = None,
) -> None:
    """Open a shell in the image, with the checkout at /workspace.

    Example: spyre-ci image shell --network none
    """
    settings = settings_from_context(ctx)
    words = find_client(os.environ, shutil.which)
    with engine(os.environ) as client:
        if image is None:
            prepared = _prepared(settings, variant, None, None)
            image = f"{settings.model.image.repository or prepared.resolved.stack.name}:{prepared.tag}"
        fetch(client, image)
    caller = Caller(
        user=os.getuid(), group=os.getgid(), checkout=settings.base.resolve(), terminal=sys.stdin.isatty()
    )
    become(shell_command(words, image, caller, network=network))


def _echo(line: str) -> None:
    """A line for people, beside what machines read."""
    typer.echo(line, err=True)


def _pipeline(
    settings: Settings,
    client: DockerClient,
    prepared: Prepared,
    results: Path | None,
    sbom: Path | None = None,
) -> Pipeline:
    return Pipeline(
        client=client,
        settings=settings,
        prepared=prepared,
        environ=os.environ,
        echo=_echo,
        results=results,
        sbom=sbom,
    )


def _prepared(
    settings: Settings, variant: str | None, with_: list[str] | None, test_with: Path | None
) -> Prepared:
    """An image before it is built, by what flags say of it, else by settings."""
    overrides = [parse_override(one, here=Path.cwd()) for one in with_ or ()]
    overrides += overrides_in(test_with) if test_with else []
    return prepare(settings, environ=os.environ, variant=variant, overrides=overrides)
