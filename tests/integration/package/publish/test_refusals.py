"""What is never uploaded: the unverified, the changed, what an index does not take; no token to strangers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ci.package.artifacts import sha256_of
from tests.integration.conftest import need

from .conftest import settings_for
from .releases import TOKEN, Checkout, wheel
from .servers import Front

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"


@pytest.fixture(autouse=True)
def _nothing_was_uploaded(front: Front, served: Path) -> Iterator[None]:
    yield
    assert front.uploads == 0 or list(served.iterdir()) == []


def set_index(checkout: Checkout, **more: object) -> None:
    """Change the index's settings, and verify once more."""
    path = checkout.folder / "spyre-ci.yaml"
    content = yaml.safe_load(path.read_text())
    content["package"]["indexes"]["stage"].update(more)
    path.write_text(yaml.safe_dump(content))
    checkout.commit()
    checkout.verify()


def test_what_was_not_verified_is_refused(checkout: Checkout) -> None:
    (checkout.records / "verify.json").unlink()
    done = checkout.publish()
    assert done.exit_code == 1
    assert "verified: nothing says so" in done.output
    assert "spyre-ci package verify" in done.output


def test_what_failed_its_verification_is_refused(checkout: Checkout) -> None:
    checkout.verify(passed=False)
    done = checkout.publish()
    assert done.exit_code == 1
    assert "verified: a check failed" in done.output


def test_a_file_that_changed_after_it_was_verified_is_named_with_both_hashes(checkout: Checkout) -> None:
    before = sha256_of(checkout.dist / WHEEL)
    wheel(checkout.dist, code="answer = 'changed'\n")
    done = checkout.publish()
    assert done.exit_code == 1
    assert f"{WHEEL}: sha256 {sha256_of(checkout.dist / WHEEL)}, verified was {before}" in done.output


def test_a_file_that_was_not_among_the_verified_is_named(checkout: Checkout) -> None:
    other = wheel(checkout.dist, tag="cp311-abi3-any")
    done = checkout.publish()
    assert done.exit_code == 1
    assert f"{other.name}: was not among what was verified" in done.output


def test_another_commit_than_the_verified_one_is_refused(checkout: Checkout) -> None:
    verified = checkout.git("rev-parse", "HEAD")
    (checkout.folder / "new.txt").write_text("new\n")
    checkout.commit()
    done = checkout.publish()
    assert done.exit_code == 1
    now = checkout.git("rev-parse", "HEAD")
    assert f"commit: verified {verified[:12]}, checked out {now[:12]}" in done.output


def test_a_dirty_checkout_is_refused(checkout: Checkout) -> None:
    (checkout.folder / "pyproject.toml").write_text(
        '[project]\nname = "spyre-demo"\nversion = "1.0" # more\n'
    )
    done = checkout.publish()
    assert done.exit_code == 1
    assert "checkout: differs from its commit: pyproject.toml" in done.output


def test_a_checkout_that_was_dirty_when_it_was_verified_is_refused(checkout: Checkout) -> None:
    checkout.verify(dirty=("a.py", "b.py", "c.py", "d.py"))
    done = checkout.publish()
    assert done.exit_code == 1
    assert (
        "checkout when it was built or verified: differs from its commit: a.py, b.py, c.py and 1 more"
        in done.output
    )


def test_everything_that_is_wrong_is_told_at_once(checkout: Checkout) -> None:
    set_index(checkout, local_versions=False, linux_tags=False, max_mib=0.0001)
    for path in checkout.dist.iterdir():
        path.unlink()
    wheel(checkout.dist, "1.0.dev3+gabc", tag="py3-none-linux_x86_64")
    checkout.verify()
    done = checkout.publish()
    assert done.exit_code == 1
    assert "3 of 9 checks failed" in done.output
    assert "version: 1.0.dev3+gabc" in done.output
    assert "spyre-ci package build --index stage makes one without" in done.output
    assert "linux_x86_64 remedy: stage wants a manylinux tag" in done.output
    assert "stage takes 0.0001 MiB" in done.output


def test_files_of_another_project_are_refused(checkout: Checkout) -> None:
    (checkout.folder / "pyproject.toml").write_text('[project]\nname = "spyre-other"\nversion = "1.0"\n')
    checkout.commit()
    done = checkout.publish()
    assert done.exit_code == 1
    assert "name the folder with the files of spyre-other" in done.output


def test_a_wrong_token_is_told_and_nothing_was_published(checkout: Checkout) -> None:
    done = checkout.publish(SPYRE_CI_INDEX_TOKEN="pypi-wr0ng")
    assert done.exit_code == 2
    assert f"{WHEEL} was not taken (403); nothing was published" in done.output
    assert "check the token, its user" in done.output
    assert "pypi-wr0ng" not in done.output


def test_without_a_token_nothing_begins(checkout: Checkout) -> None:
    done = checkout.publish(SPYRE_CI_INDEX_TOKEN="")
    assert done.exit_code == 2
    assert "there is no token for stage" in done.output
    assert "set SPYRE_CI_INDEX_TOKEN, or name a file with the token in package.indexes.stage.token_file" in (
        done.output
    )


def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(checkout: Checkout) -> None:
    done = checkout.publish(SPYRE_CI_INDEX_TOKEN="two words")
    assert done.exit_code == 2
    assert "holds blanks or characters no header can carry" in done.output
    assert "two words" not in done.output


def test_a_token_is_not_sent_to_an_address_of_the_checkouts_settings(checkout: Checkout) -> None:
    set_index(checkout, upload="https://index.example.com/")
    done = checkout.publish()
    assert done.exit_code == 2
    assert (
        "the token is not sent to https://index.example.com/: the address is that of the settings file"
        in (done.output)
    )
    assert "as SPYRE_CI__PACKAGE__INDEXES__STAGE__UPLOAD" in done.output


def test_an_address_of_the_environment_may_have_the_token(checkout: Checkout) -> None:
    set_index(checkout, upload="https://index.example.com/")
    done = checkout.publish(
        "--dry-run", SPYRE_CI__PACKAGE__INDEXES__STAGE__UPLOAD="https://index.example.com/"
    )
    assert done.exit_code == 0, done.output


def test_a_settings_file_from_elsewhere_may_say_who_has_the_token(
    checkout: Checkout, before: tuple[Front, str], tmp_path: Path
) -> None:
    content = settings_for(before[1])
    content["indexes"]["stage"]["upload"] = "https://index.example.com/"
    path = tmp_path / "ours.yaml"
    path.write_text(yaml.safe_dump({"package": content}))
    words = ("--config", str(path), "package", "publish", "--index", "stage", "--dry-run")
    done = checkout.spyre_ci(*words, environ={"SPYRE_CI_INDEX_TOKEN": TOKEN})
    assert done.exit_code == 0, done.output


def test_an_index_that_nobody_knows_is_told_with_those_there_are(checkout: Checkout) -> None:
    done = checkout.spyre_ci("package", "publish", "--index", "stahge")
    assert done.exit_code == 2
    assert "there is no index 'stahge'" in done.output
    assert "known: testpypi, pypi, stage" in done.output


def test_a_gate_that_is_shut_says_what_shuts_it(checkout: Checkout) -> None:
    set_index(checkout, gate="merge")
    for words in ((), ("--dry-run",)):
        done = checkout.publish(*words)
        assert done.exit_code == 1
        assert "stage: the merge gate is shut lint: was not run" in done.output


def test_a_gate_that_is_open_is_passed(checkout: Checkout) -> None:
    set_index(checkout, gate="merge")
    checkout.pass_gate()
    done = checkout.publish("--dry-run")
    assert done.exit_code == 0, done.output
    assert "the gate of stage is open: merge" in done.output


def test_what_somebody_answers_for_is_said_with_the_name(checkout: Checkout) -> None:
    set_index(checkout, gate="merge")
    checkout.pass_gate()
    (checkout.records / "unit.json").unlink()
    words = ("--override", "unit", "--by", "Ada", "--reason", "the runner is away")
    told = checkout.spyre_ci("package", "release", "--index", "stage", *words)
    assert told.exit_code == 0, told.output
    done = checkout.publish("--dry-run")
    assert done.exit_code == 0, done.output
    assert "passed over by Ada: unit (the runner is away)" in done.output


def test_no_command_line_shows_the_token_while_twine_uploads(checkout: Checkout, front: Front) -> None:
    seen: list[str] = []

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(path.read_bytes().decode(errors="replace"))
            except OSError:
                continue

    need(Path("/proc/self").is_dir(), "/proc")
    front.on_upload, front.lose_uploads, front.upload_status = look, True, 400
    checkout.publish()
    assert any("twine\0upload" in one for one in seen)
    assert not any(TOKEN in one for one in seen)
