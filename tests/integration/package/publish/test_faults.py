"""An index that is away, lies, hangs or dies: nothing is half published without saying so, and it goes on."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .releases import TOKEN, Checkout, sdist, wheel
from .servers import Front

WHEEL, SDIST = "spyre_demo-1.0-py3-none-any.whl", "spyre_demo-1.0.tar.gz"
pytestmark = pytest.mark.nightly


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_was_half_published_is_continued(checkout: Checkout, front: Front, served: Path) -> None:
    wheel(served)
    done = checkout.publish("--json")
    assert done.code == 0, done.output
    assert "1 of 2 files are already on the index with the same contents: 1 to upload" in done.output
    assert done.json["state"] == {"uploaded": [SDIST], "there": [WHEEL], "absent": [], "unsure": []}
    assert front.uploads == 1


def test_an_index_that_goes_down_in_the_middle_leaves_an_account_and_the_same_command_continues(
    checkout: Checkout, front: Front, served: Path
) -> None:
    front.dies_at = 2
    done = checkout.publish()
    assert done.code == 3
    assert names(served) == {WHEEL}
    assert f"1 of 2 files is published: {WHEEL}; unknown whether published: {SDIST}" in done.output
    assert "repeat the command when the index is available" in done.output
    assert checkout.note()["complete"] is False
    assert checkout.note()["state"] == {"uploaded": [WHEEL], "there": [], "absent": [], "unsure": [SDIST]}
    front.down = False
    again = checkout.publish()
    assert again.code == 0, again.output
    assert "1 of 2 files are already on the index with the same contents: 1 to upload" in again.output
    assert names(served) == {WHEEL, SDIST}
    assert checkout.note()["complete"] is True


def test_a_file_that_was_kept_in_spite_of_an_error_is_published(
    checkout: Checkout, front: Front, served: Path
) -> None:
    front.upload_status = 500
    done = checkout.publish()
    assert done.code == 0, done.output
    assert f", but it has {WHEEL}" in done.output
    assert names(served) == {WHEEL, SDIST}


def test_an_index_that_says_yes_and_keeps_nothing_is_found_out(checkout: Checkout, front: Front) -> None:
    front.lose_uploads = True
    done = checkout.publish(SPYRE_CI__PACKAGE__PUBLISH_TIMEOUT_S="4")
    assert done.code == 3
    assert (
        "everything was uploaded, but after 4 s the index does not list all of it: not listed: "
        in done.output
    )
    assert "repeat the command: it checks again and uploads nothing twice" in done.output
    assert checkout.note()["complete"] is False


def test_an_index_that_is_away_publishes_nothing_and_says_so(checkout: Checkout, front: Front) -> None:
    front.down = True
    done = checkout.publish()
    assert done.code == 3
    assert "it cannot be reached: " in done.output
    assert "nothing was published" in done.output


def test_an_upload_that_hangs_is_ended(checkout: Checkout, front: Front) -> None:
    front.on_upload = front.ended.wait
    done = checkout.publish(SPYRE_CI__PACKAGE__PUBLISH_TIMEOUT_S="3")
    assert done.code == 3
    assert "took longer than 3 s" in done.output
    assert f"not published: {SDIST}; unknown whether published: {WHEEL}" in done.output


def test_bytes_that_change_on_the_index_are_told_by_both_hashes(
    checkout: Checkout, front: Front, served: Path
) -> None:
    def other() -> None:
        if front.uploads > 1:
            (served / WHEEL).unlink()
            wheel(served, code="answer = 'changed'\n")

    front.on_upload = other
    done = checkout.publish()
    assert done.code == 1
    assert "local sha256:" in done.output
    assert "on the index sha256:" in done.output


def test_somebody_else_who_uploads_the_same_bytes_does_no_harm(
    checkout: Checkout, front: Front, served: Path
) -> None:
    def both() -> None:
        (served / (WHEEL if front.uploads == 1 else SDIST)).write_bytes(
            (checkout.dist / (WHEEL if front.uploads == 1 else SDIST)).read_bytes()
        )

    front.on_upload = both
    done = checkout.publish()
    assert done.code == 0, done.output
    assert f"the index answered 400, but it has {WHEEL}" in done.output


def test_a_file_that_the_index_does_not_take_is_told_in_its_words(checkout: Checkout, front: Front) -> None:
    front.lose_uploads, front.upload_status = True, 400
    done = checkout.publish()
    assert done.code == 1
    assert f"{WHEEL} was not accepted (400); nothing was published" in done.output
    assert "fix what the index reports" in done.output


@contextmanager
def publishing_the_second(checkout: Checkout, front: Front) -> Iterator[subprocess.Popen[str]]:
    """A process whose second upload has reached the index and waits for its answer."""
    reached = threading.Event()

    def second_waits() -> None:
        if front.uploads > 1:
            reached.set()
            front.ended.wait()

    front.on_upload = second_waits
    with subprocess.Popen(
        checkout.command("package", "publish", "--index", "stage"),
        cwd=checkout.folder,
        env=checkout.env(SPYRE_CI_INDEX_TOKEN=TOKEN),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert reached.wait(60)
        yield process


def test_ctrl_c_in_the_middle_says_what_is_published(checkout: Checkout, front: Front, served: Path) -> None:
    with publishing_the_second(checkout, front) as process:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"interrupted: 1 of 2 files is published: {WHEEL}; unknown whether published: {SDIST}" in said
    assert "repeat the command to continue" in said
    assert checkout.note()["state"]["uploaded"] == [WHEEL]
    assert names(served) == {WHEEL}


def test_what_is_written_over_while_another_file_is_on_its_way_is_not_published(
    checkout: Checkout, front: Front, served: Path
) -> None:
    front.on_upload = lambda: (checkout.dist / SDIST).write_bytes(b"evil")
    done = checkout.publish()
    assert done.code == 1, done.output
    assert "changed since it was checked" in done.output
    assert names(served) == {WHEEL}


def test_a_process_that_is_killed_in_an_upload_leaves_a_note_of_it(checkout: Checkout, front: Front) -> None:
    with publishing_the_second(checkout, front) as process:
        process.kill()
    noted = checkout.note()
    assert (noted["complete"], noted["state"]["uploaded"], noted["state"]["unsure"]) == (
        False, [WHEEL], [SDIST],
    )  # fmt: skip


def test_an_sdist_of_another_spelling_takes_the_version_too(checkout: Checkout, served: Path) -> None:
    sdist(served, code="answer = 43\n").rename(served / "spyre-demo-1.0.tar.gz")
    done = checkout.publish()
    assert done.code == 1
    assert "spyre-demo-1.0.tar.gz: local sha256:" in done.output
