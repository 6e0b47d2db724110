"""Trusted publishing: twine's exchange of a GitHub job's word for a token, and an upload with that."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calls import Said
from tests.integration.conftest import need

from .releases import Checkout
from .trusted import ASKS, JOB, MINTED, TestPyPI, github_and_testpypi

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[TestPyPI, dict[str, str]]]:
    need(shutil.which("openssl") is not None, "openssl")
    folder = tmp_path / "tls"
    folder.mkdir()
    with github_and_testpypi(folder) as both:
        yield both


@pytest.fixture
def testpypi(pair: tuple[TestPyPI, dict[str, str]]) -> TestPyPI:
    return pair[0]


@pytest.fixture
def job(tmp_path: Path, pair: tuple[TestPyPI, dict[str, str]]) -> Checkout:
    """A verified checkout in a GitHub job that may ask for tokens."""
    made = Checkout(folder=tmp_path / "demo", environ=pair[1])
    made.make({"publish_timeout_s": 30})
    made.build()
    return made


def publish(job: Checkout, *words: str, **environ: str) -> Said:
    done = job.spyre_ci("package", "publish", "--index", "testpypi", *words, open_gates=True, environ=environ)
    for secret in (MINTED, JOB, ASKS):
        assert secret not in done.output
    return done


def test_a_github_job_publishes_without_a_token_of_its_own(job: Checkout, testpypi: TestPyPI) -> None:
    done = publish(job, "--json")
    assert done.code == 0, done.output
    assert testpypi.files == {name: (job.dist / name).read_bytes() for name in (WHEEL, SDIST)}
    assert testpypi.asked == [("testpypi", f"bearer {ASKS}")] * 2
    assert done.json["installed"] == [WHEEL]


def test_a_dry_run_says_who_would_publish_and_asks_for_no_token(job: Checkout, testpypi: TestPyPI) -> None:
    done = publish(job, "--dry-run")
    assert done.code == 0, done.output
    assert "would upload with trusted publishing, as this GitHub job" in done.output
    assert testpypi.asked == []


def test_an_index_that_does_not_know_the_job_says_why(job: Checkout, testpypi: TestPyPI) -> None:
    testpypi.knows = False
    done = publish(job)
    assert done.code == 2
    assert f"{WHEEL} was not taken; nothing was published" in done.output
    assert "no publisher is known by these claims" in done.output
    assert testpypi.files == {}


def test_a_job_without_leave_to_ask_is_told_how_it_gets_it(job: Checkout) -> None:
    done = publish(job, ACTIONS_ID_TOKEN_REQUEST_URL="")
    assert done.code == 2
    assert "there is no token for testpypi" in done.output
    assert "set SPYRE_CI_INDEX_TOKEN, or give the GitHub job `permissions: id-token: write`" in done.output


@pytest.mark.nightly
def test_a_token_that_is_given_wins_over_trusted_publishing(job: Checkout, testpypi: TestPyPI) -> None:
    done = publish(job, SPYRE_CI_INDEX_TOKEN=MINTED)
    assert done.code == 0, done.output
    assert testpypi.asked == []


def test_a_token_that_testpypi_does_not_know_is_told(job: Checkout) -> None:
    done = publish(job, SPYRE_CI_INDEX_TOKEN="pypi-wr0ng")
    assert done.code == 2
    assert f"{WHEEL} was not taken (403); nothing was published" in done.output
    assert "pypi-wr0ng" not in done.output
