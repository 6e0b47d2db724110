"""What is never uploaded: the unverified, the changed, what an index does not take; no token to strangers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .releases import Checkout, wheel
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


def test_everything_that_is_wrong_is_told_at_once(checkout: Checkout) -> None:
    set_index(checkout, local_versions=False, linux_tags=False, max_mib=0.0001)
    for path in checkout.dist.iterdir():
        path.unlink()
    wheel(checkout.dist, "1.0.dev3+gabc", tag="py3-none-linux_x86_64")
    checkout.verify()
    done = checkout.publish()
    assert done.code == 1
    assert "3 of 9 checks failed" in done.output
    assert "version: 1.0.dev3+gabc" in done.output
    assert "spyre-ci package build --index stage builds one without" in done.output
    assert "linux_x86_64 remedy: stage needs a manylinux tag" in done.output
    assert "stage accepts at most 0.0001 MiB" in done.output


def test_files_of_another_project_are_refused(checkout: Checkout) -> None:
    (checkout.folder / "pyproject.toml").write_text('[project]\nname = "spyre-other"\nversion = "1.0"\n')
    checkout.commit()
    done = checkout.publish()
    assert done.code == 1
    assert "name the folder with the files of spyre-other" in done.output


def test_a_token_is_not_sent_to_an_address_of_the_checkouts_settings(checkout: Checkout) -> None:
    set_index(checkout, upload="https://index.example.com/")
    done = checkout.publish()
    assert done.code == 2
    assert (
        "the token is not sent to https://index.example.com/: the address is that of the settings file"
        in (done.output)
    )
    assert "as SPYRE_CI__PACKAGE__INDEXES__STAGE__UPLOAD" in done.output


def test_a_gate_is_shut_until_every_step_is_green(checkout: Checkout) -> None:
    set_index(checkout, gate="merge")
    for words in ((), ("--dry-run",)):
        done = checkout.publish(*words)
        assert done.code == 1
        assert "the gate of stage: 2 of " in done.output
        assert "lint: was not run" in done.output
    checkout.pass_gate()
    assert checkout.publish("--dry-run").code == 0
