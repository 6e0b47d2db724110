from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import UsageError
from ci.reproduce.shell import Chosen, choose_image, confined, mounts

DIGEST = f"sha256:{'1' * 64}"
OURS = f"quay.io/o/runtime@{DIGEST}"


def test_the_run_s_image_is_opened_by_its_digest() -> None:
    assert choose_image(OURS, None, "quay.io/o/runtime", "r") == Chosen(image=OURS, ours=True)


@pytest.mark.parametrize("noted", ["", "quay.io/o/runtime:latest", "--privileged"])
def test_a_run_without_an_image_by_digest_opens_none(noted: str) -> None:
    with pytest.raises(UsageError, match="notes no image"):
        choose_image(noted, None, "quay.io/o/runtime", "r")


@pytest.mark.parametrize("repository", [None, "quay.io/o/run", "quay.io/o/runtime-evil"])
def test_a_stranger_s_image_is_opened_only_where_somebody_names_it(repository: str | None) -> None:
    with pytest.raises(UsageError, match="is none of") as caught:
        choose_image(OURS, None, repository, "r")
    assert f"--image {OURS}" in str(caught.value)
    assert not choose_image(OURS, OURS, repository, "r").ours


@pytest.mark.parametrize("asked", ["", "--privileged", "-v/:/host"])
def test_no_option_is_an_image(asked: str) -> None:
    with pytest.raises(UsageError, match="is no image"):
        choose_image(OURS, asked, None, "r")


def test_a_stranger_s_image_has_no_network_unasked() -> None:
    assert confined(Chosen(image="x", ours=False), None)[-2:] == ["--network", "none"]
    assert confined(Chosen(image="x", ours=False), "host")[-2:] == ["--network", "host"]
    assert "--network" not in confined(Chosen(image="x", ours=True), None)


def test_everything_but_the_copy_is_only_read() -> None:
    words = mounts(
        code=Path("/src"),
        shim=Path("/s/spyre-ci"),
        tests=Path("/a,b/tree"),
        runs=[(Path("/r/x"), "x")],
        workspace="/workspace",
    )
    given = words[1::2]
    assert set(words[::2]) == {"--mount"}
    assert all(one.endswith("readonly") for one in given)
    assert '"target=/a,b/tree"' in given[3]
    assert "target=/workspace/runs/x" in given[4]
    # Of the toolkit its code, and not the folder it is in, which may hold tokens.
    assert "source=/src/ci" in given[0]
