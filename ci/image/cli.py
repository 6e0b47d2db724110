"""`spyre-ci image`: show, build and push the runtime image."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json, renamed
from ci.core.errors import SettingsError, UsageError
from ci.image.override import FORM_HERE
from test_selection.files import document_text

# What works with the engine is imported late: its client takes a part of a second, which every verb pays.
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
Sbom = Annotated[Path | None, typer.Option(metavar="FILE", help="Write its SBOM there: CycloneDX in JSON.")]
Image = Annotated[
    str | None, typer.Argument(metavar="IMAGE|TAG", help="Its name or a tag; default: what the stack gives.")
]


@app.command()
def render(  # typer makes options of them
    ctx: typer.Context,
    stack: Stack = None,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    as_json: Json = False,
) -> None:
    """Print the Containerfile that would be built, every part of it named exactly.

    Example: spyre-ci image render --variant pinned
    """
    from ci.image import wiring  # noqa: PLC0415
    from ci.image.engine import engine  # noqa: PLC0415

    with engine(os.environ) as client:
        prepared = wiring.prepared_of(
            settings_from_context(ctx), client, stack, variant, with_, test_with=test_with
        )
    if as_json:
        told = {
            "tag": prepared.tag,
            "variant": prepared.resolved.variant,
            "base": prepared.resolved.base,
            "pytorch": prepared.resolved.pytorch.commit or prepared.resolved.pytorch.requirement,
            "components": dict(prepared.resolved.revisions),
            "containerfile": prepared.containerfile,
        }
        typer.echo(document_text("image-render", told))
        return
    typer.echo(prepared.containerfile, nl=False)


@app.command()
def build(  # typer makes options of them
    ctx: typer.Context,
    stack: Stack = None,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    push: Annotated[bool, typer.Option("--push", help="Push it, and find it in the registry.")] = False,
    tag: Annotated[list[str] | None, typer.Option(help="A tag that moves to it, with --push.")] = None,
    version: Annotated[str | None, typer.Option(help="Release it as X.Y.Z, X.Y and X, with --push.")] = None,
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

    Example: spyre-ci image build --variant pinned --results results
    """
    from ci.image import wiring  # noqa: PLC0415
    from ci.image.component_tests import planned_tests  # noqa: PLC0415
    from ci.image.engine import engine, fetch  # noqa: PLC0415
    from ci.image.push import check_expected  # noqa: PLC0415
    from ci.image.registry import find_digest  # noqa: PLC0415

    settings = settings_from_context(ctx)
    image = settings.model.image
    if expect is not None and not push:
        raise UsageError("it is the registry's image that is expected", where="--expect", remedy="add --push")
    if push and image.repository is None:
        raise SettingsError(
            "there is nowhere to push to",
            where="image.repository",
            remedy="set it to registry/namespace/name",
        )
    with engine(os.environ) as client:
        prepared = wiring.prepared_of(settings, client, stack, variant, with_, test_with=test_with)
        maker = wiring.maker_of(settings, client, prepared, results=results, sbom=sbom, tests=not no_tests)
        planned = planned_tests(prepared.resolved, wiring.device_of(settings))
        if expect is not None:
            name = f"{maker.repository}:{prepared.tag}"
            check_expected(name, find_digest(client, name), expect)
        made = maker.make(prepared, planned, pushes=push, tags=tag or (), version=version)
        if made.found and sbom is not None:
            # Nothing was built, so nobody wrote it yet.
            fetch(client, made.name)
            maker.gate.look(made.name, None, stack=prepared.resolved, against=None)
    if as_json:
        typer.echo(
            document_text(
                "image-build",
                {"image": made.name, "digest": made.digest, "found": made.found},
                on_one_line=True,
            )
        )
        return
    typer.echo(f"{made.name} {made.digest}".rstrip())


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
    from ci.image import wiring  # noqa: PLC0415
    from ci.image.engine import engine  # noqa: PLC0415
    from ci.image.tree import origin_of, put_tree  # noqa: PLC0415

    url = settings_from_context(ctx).model.image.pytorch_url
    with engine(os.environ) as client:
        origin = origin_of(client, image, url=url)
    put_tree(origin, folder, environ=os.environ, echo=wiring.echo)
    if as_json:
        typer.echo(
            document_text(
                "image-tree", {"commit": origin.commit, "url": origin.url, "folder": folder}, on_one_line=True
            )
        )
        return
    typer.echo(origin.commit)


@app.command("test")
def run_tests(  # typer makes options of them
    ctx: typer.Context,
    stack: Stack = None,
    variant: Variant = None,
    with_: With = None,
    test_with: TestWith = None,
    component: Annotated[list[str] | None, typer.Option(help="Only this component's; repeatable.")] = None,
    on_device: Annotated[
        bool, typer.Option("--on-device", help="Only the tests that want a device.")
    ] = False,
    device: Annotated[bool | None, typer.Option("--device", hidden=True)] = None,
    results: Results = None,
) -> None:
    """Run the components' tests where an image's build would; nothing is pushed, and no tag is given.

    Example: spyre-ci image test --component flex
    """
    from ci.image import wiring  # noqa: PLC0415
    from ci.image.component_tests import chosen_tests, planned_tests  # noqa: PLC0415
    from ci.image.engine import engine  # noqa: PLC0415

    settings = settings_from_context(ctx)
    with engine(os.environ) as client:
        prepared = wiring.prepared_of(settings, client, stack, variant, with_, test_with=test_with)
        planned = planned_tests(prepared.resolved, wiring.device_of(settings))
        chosen = chosen_tests(
            planned,
            components=component or (),
            with_device=renamed("--device", "--on-device", device, on_device),
        )
        maker = wiring.maker_of(settings, client, prepared, results=results, tests=True)
        maker.test(prepared, chosen)


@app.command("verify")
def verify_image(  # typer makes options of them
    ctx: typer.Context,
    image: Image = None,
    stack: Stack = None,
    variant: Variant = None,
    with_: With = None,
    against: Annotated[
        str | None, typer.Option(metavar="IMAGE|TAG", help="In a registry: the size it is compared with.")
    ] = None,
    sbom: Sbom = None,
    as_json: Json = False,
) -> None:
    """Check how an image starts, its roles, labels, size and contents, by its stack or its labels alone.

    Example: spyre-ci image verify --sbom sbom.json
    """
    from ci.core.findings import refuse_failed  # noqa: PLC0415
    from ci.image import wiring  # noqa: PLC0415
    from ci.image.engine import engine, fetch  # noqa: PLC0415
    from ci.image.verify.expected import of_stack  # noqa: PLC0415

    settings = settings_from_context(ctx)
    with engine(os.environ) as client:
        prepared = None
        if image is None or stack is not None or variant is not None or with_:
            prepared = wiring.prepared_of(settings, client, stack, variant, with_)
        name = wiring.name_of(image, prepared, settings, stack)
        gate = wiring.gate_of(settings, client, sbom)
        gate.ready()
        fetch(client, name)
        resolved = prepared.resolved if prepared else None
        verified = gate.look(
            name,
            of_stack(resolved) if resolved else None,
            stack=resolved,
            against=wiring.name_of(against, None, settings, stack) if against else None,
        )
    if as_json:
        checks = [one.as_json() for one in verified.findings]
        typer.echo(document_text("image-verify", {"image": name, "id": verified.image, "checks": checks}))
    refuse_failed(name, verified.findings)


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
    from ci.image import wiring  # noqa: PLC0415
    from ci.image.engine import engine, fetch  # noqa: PLC0415
    from ci.image.shell import Caller, become, find_client, shell_command  # noqa: PLC0415

    settings = settings_from_context(ctx)
    words = find_client(os.environ, shutil.which)
    with engine(os.environ) as client:
        prepared = wiring.prepared_of(settings, client, stack, variant, None) if image is None else None
        name = wiring.name_of(image, prepared, settings, stack)
        fetch(client, name)
    caller = Caller(
        user=os.getuid(), group=os.getgid(), checkout=settings.base.resolve(), terminal=sys.stdin.isatty()
    )
    become(shell_command(words, name, caller, network=network))
