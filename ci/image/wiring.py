"""What the verbs of `spyre-ci image` work with, as settings and flags have it.

Imported late by the command line: the engine's client takes a part of a second, which every verb would pay.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import typer
from docker import DockerClient

from ci.config import Settings
from ci.image.component_tests import Device
from ci.image.making import Choice, Maker, Prepared, prepare
from ci.image.override import overrides_in, parse_with, read_text
from ci.image.repositories import revision_of
from ci.image.stack import read_stack
from ci.image.testing import Tester
from ci.image.verify.gate import Gate, is_tag
from ci.image.verify.roles import Patience


def echo(line: str) -> None:
    """A line for people, beside what machines read."""
    typer.echo(line, err=True)


def maker_of(
    settings: Settings,
    client: DockerClient,
    prepared: Prepared,
    *,
    results: Path | None = None,
    sbom: Path | None = None,
    tests: bool,
) -> Maker:
    """What builds, tests and verifies an image.

    Args:
        settings: of the checkout.
        client: the engine.
        prepared: the image.
        results: folder of its tests' JUnit; None: below the state folder.
        sbom: file; None: below the state folder.
        tests: whether they run.
    """
    image = settings.model.image
    folder = results or settings.state_dir / "image-tests" / prepared.tag
    return Maker(
        client=client,
        repository=image.repository or prepared.resolved.stack.name,
        environ=os.environ,
        certificates=settings.resolve(image.certificates) if image.certificates else None,
        gate=gate_of(settings, client, sbom or settings.state_dir / "image" / f"{prepared.tag}.cdx.json"),
        tester=Tester(client=client, results=folder, echo=echo, clock=time.monotonic) if tests else None,
        echo=echo,
        clock=time.monotonic,
    )


def device_of(settings: Settings) -> Device:
    """What tests with a device get."""
    said = settings.model.device
    return Device(
        cards=settings.model.image.devices, refuse_ops=said.refuse_ops, refuse_dtypes=said.refuse_dtypes
    )


def choice_of(
    settings: Settings,
    stack: Path | None,
    variant: str | None,
    with_: list[str] | None,
    *,
    test_with: Path | None = None,
) -> Choice:
    """What is built, by flags, else by settings."""
    image = settings.model.image
    file = stack or settings.resolve(image.stack)
    return Choice(
        file=file,
        revision=revision_of(file.parent, environ=os.environ),
        variant=variant or image.variant,
        platform=image.platform,
        overrides=[
            *(parse_with(one, here=Path.cwd()) for one in with_ or ()),
            *(overrides_in(read_text(test_with)) if test_with else ()),
        ],
    )


def gate_of(settings: Settings, client: DockerClient, sbom: Path | None) -> Gate:
    """What verifies an image."""
    image = settings.model.image
    return Gate(
        client=client,
        patience=Patience(timeout_s=image.role_timeout_s, clock=time.monotonic, sleep=time.sleep),
        most_percent=image.max_growth_percent,
        model=settings.resolve(image.model) if image.model else None,
        sbom=sbom,
        environ=os.environ,
        echo=echo,
    )


def prepared_of(
    settings: Settings,
    client: DockerClient,
    stack: Path | None,
    variant: str | None,
    with_: list[str] | None,
    *,
    test_with: Path | None = None,
) -> Prepared:
    """An image before it is built, by what flags say of it."""
    return prepare(choice_of(settings, stack, variant, with_, test_with=test_with), client, os.environ)


def name_of(given: str | None, prepared: Prepared | None, settings: Settings, stack: Path | None) -> str:
    """An image's whole name, of a name, of a tag alone, or of what a stack gives."""
    if given is not None and not is_tag(given):
        return given
    image = settings.model.image
    repository = image.repository or read_stack(stack or settings.resolve(image.stack)).name
    if given is None:
        assert prepared is not None  # noqa: S101  # the caller prepares where no image is named
        return f"{repository}:{prepared.tag}"
    return f"{repository}:{given}"
