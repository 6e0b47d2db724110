"""A release goes to a real index, is installed from there, and what is published stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.package.artifacts import sha256_of

from .releases import USER, Checkout, wheel
from .servers import Front, without_hashes

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_changed_bytes_under_the_same_version_are_refused_with_both_hashes(
    checkout: Checkout, front: Front, served: Path
) -> None:
    assert checkout.publish().code == 0
    before = sha256_of(served / WHEEL)
    checkout.build(code="answer = 43\n")
    again = checkout.publish()
    assert again.code == 1
    assert "1.0 is already published with other contents, and what is published never changes" in again.output
    now = sha256_of(checkout.dist / WHEEL)
    assert f"{WHEEL}: local sha256:{now[:16]}…, on the index sha256:{before[:16]}…" in again.output
    assert "raise the version" in again.output
    assert front.uploads == 2
    assert sha256_of(served / WHEEL) == before


@pytest.mark.nightly
def test_what_an_index_gives_no_hash_of_is_not_taken_for_ours(checkout: Checkout, front: Front) -> None:
    assert checkout.publish().code == 0
    front.edit = without_hashes
    again = checkout.publish()
    assert again.code == 3
    assert "it lists no SHA-256 of " in again.output


@pytest.mark.nightly
def test_a_wheel_of_another_platform_beside_it_is_no_obstacle(checkout: Checkout, served: Path) -> None:
    wheel(served, tag="cp39-cp39-manylinux_2_28_s390x")
    done = checkout.publish()
    assert done.code == 0, done.output
    other = "spyre_demo-1.0-cp39-cp39-manylinux_2_28_s390x.whl"
    assert {path.name for path in served.iterdir()} == {WHEEL, SDIST, other}


def test_a_wheel_for_another_platform_is_published_and_not_installed(checkout: Checkout) -> None:
    (checkout.dist / WHEEL).unlink()
    wheel(checkout.dist, tag="cp39-cp39-manylinux_2_28_s390x")
    checkout.verify()
    done = checkout.publish("--json")
    assert done.code == 0, done.output
    assert done.json["installed"] == []
    assert "no wheel supports this Python and platform: none was installed" in done.output


@pytest.mark.nightly
def test_a_package_that_cannot_be_imported_is_told_after_it_is_published(checkout: Checkout) -> None:
    checkout.build(code="import no_such_thing\n")
    done = checkout.publish()
    assert done.code == 1
    assert f"{WHEEL} is published, but cannot be imported" in done.output
    assert "No module named 'no_such_thing'" in done.output
    assert "raise the version" in done.output


def test_a_dry_run_says_what_would_be_uploaded_and_uploads_nothing(
    checkout: Checkout, front: Front, served: Path
) -> None:
    done = checkout.publish("--dry-run")
    assert done.code == 0
    digest = sha256_of(checkout.dist / WHEEL)
    assert f"would upload {WHEEL} (sha256 {digest}) to http://127.0.0.1" in done.output
    assert f"spyre-demo 1.0 would be published on stage: {WHEEL}, {SDIST}" in done.output
    assert names(served) == set()
    assert front.uploads == 0
    assert not (checkout.records / "published-stage.json").exists()
    # Whoever uploads the folder then would upload this, too.
    (checkout.dist / "spyre_demo-1.0.zip").write_bytes(b"")
    assert "contains more than sdist and wheels: spyre_demo-1.0.zip" in checkout.publish("--dry-run").output


@pytest.mark.nightly
def test_a_dry_run_wants_no_token_and_ends_as_the_upload_would(checkout: Checkout) -> None:
    assert checkout.publish("--dry-run", SPYRE_CI_INDEX_TOKEN="").code == 0
    assert checkout.publish().code == 0
    checkout.build(code="answer = 43\n")
    assert checkout.publish("--dry-run").code == 1


@pytest.mark.nightly
def test_a_preview_that_another_build_published_is_enough_for_a_nightly_run(checkout: Checkout) -> None:
    for path in checkout.dist.iterdir():
        path.unlink()
    checkout.build("1.1.dev3")
    assert checkout.publish("--skip-existing-version").code == 0
    checkout.build("1.1.dev3", code="answer = 43\n")
    assert checkout.publish().code == 1
    done = checkout.publish("--skip-existing-version", "--json")
    assert done.code == 0
    assert "the index already has another build of the preview 1.1.dev3: nothing to upload" in done.output
    assert done.json["skipped"] is True


def test_a_preview_of_another_build_that_is_there_in_part_is_taken(checkout: Checkout, served: Path) -> None:
    for path in checkout.dist.iterdir():
        path.unlink()
    wheel(served, "1.1.dev3", code="answer = 43\n")
    checkout.build("1.1.dev3")
    done = checkout.publish("--skip-existing-version")
    assert done.code == 1
    assert "1.1.dev3 is already published with other contents" in done.output


@pytest.mark.nightly
def test_what_another_tool_uploads_is_compared_handed_over_and_installed(
    checkout: Checkout, front: Front, served: Path, tmp_path: Path
) -> None:
    """As a GitHub workflow has it, whose publishing action uploads."""
    outputs = tmp_path / "outputs"
    asked = checkout.publish("--dry-run", SPYRE_CI_INDEX_TOKEN="", GITHUB_OUTPUT=str(outputs))
    assert asked.code == 0, asked.output
    told = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert told["upload"].startswith("http://127.0.0.1:")
    assert {key: told[key] for key in ("user", "absent", "there")} == {
        "user": USER, "absent": "2", "there": "0",
    }  # fmt: skip
    missing = checkout.publish("--uploaded", SPYRE_CI__PACKAGE__PUBLISH_TIMEOUT_S="2")
    assert missing.code == 3
    for path in checkout.dist.iterdir():
        shutil.copy(path, served)
    done = checkout.publish("--uploaded", "--json", SPYRE_CI_INDEX_TOKEN="")
    assert done.code == 0, done.output
    assert (done.json["installed"], done.json["complete"]) == ([WHEEL], True)
    assert front.uploads == 0


def test_a_release_is_never_skipped(checkout: Checkout) -> None:
    done = checkout.publish("--skip-existing-version")
    assert done.code == 2
    assert "1.0 is not a preview" in done.output
