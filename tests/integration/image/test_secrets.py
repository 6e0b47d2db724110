"""What a build is given in confidence is in nothing that it leaves."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from .calling import made, spyre_ci
from .conftest import World

SECRET = "hunter2-of-the-index"


def everything(world: World, image: str) -> bytes:
    """All bytes of an image's layers, its configuration and its history."""
    found = world.client.images.get(image)
    saved = io.BytesIO()
    for piece in found.save():
        saved.write(piece)
    content = [json.dumps(found.attrs).encode(), json.dumps(found.history()).encode()]
    saved.seek(0)
    with tarfile.open(fileobj=saved) as outer:
        for member in outer:
            held = outer.extractfile(member)
            if held is not None:
                content.append(held.read())
    return b"\0".join(content)


@pytest.mark.nightly
def test_no_secret_is_in_a_layer_or_in_the_history(world: World, tmp_path: Path) -> None:
    certificates = tmp_path / "company.pem"
    marked = "-----BEGIN CERTIFICATE-----\nCOMPANYCERTIFICATE\n-----END CERTIFICATE-----\n"
    certificates.write_text(marked)
    address = world.index.replace("http://", f"http://robot:{SECRET}@")
    result = spyre_ci(
        world,
        "image",
        "build",
        "--json",
        PIP_INDEX_URL=f"{address}/",
        SPYRE_CI__IMAGE__CERTIFICATES=str(certificates),
    )
    image = made(result)["image"]
    assert SECRET not in result.stdout + result.stderr
    held = everything(world, image)
    # The search finds what is there.
    assert b"spyre:x:10001" in held
    assert b"io.github.torch-spyre" in held
    for hidden in (
        SECRET,
        "robot:",
        "COMPANYCERTIFICATE",
        "FTP_PROXY=127",
        world.index.removeprefix("http://"),
    ):
        assert hidden.encode() not in held
    # Nor in the stages that are left in the engine's cache.
    for one in world.client.api.images(all=True):
        image = world.client.images.get(one["Id"])
        assert SECRET not in json.dumps([image.attrs, image.history()])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("args: {GREETING: 'https://robot:word@example.com'}", "GREETING looks like a secret"),
        ("args: {INDEX_TOKEN: abc}", "INDEX_TOKEN looks like a secret"),
    ],
)
def test_a_secret_in_an_argument_is_refused_unseen(world: World, text: str, said: str) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text().replace("args: {GREETING: hello}", text))
    result = spyre_ci(world, "image", "build", "--push")
    assert result.exit_code == 2
    assert said in result.output
    assert "word" not in result.output
    assert "abc" not in result.output
