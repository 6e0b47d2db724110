"""What a folder in a bucket may hold, and many files moved at once."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError
from ci.jobs.transfer import AT_ONCE, MANIFEST, OWN, _each, check_names

WHERE = "s3://bucket/model"


LEADS_OUT, UNPRINTED = "is not a path below the folder", "has characters that cannot be printed"
RESERVED = "is reserved for transfers"
REFUSED = {
    "../x": LEADS_OUT, "a/../../x": LEADS_OUT, "a/../x": LEADS_OUT, "/etc/passwd": LEADS_OUT,
    "a//b": LEADS_OUT, "a/": LEADS_OUT, "": LEADS_OUT, "a/./b": LEADS_OUT, "a\nb": UNPRINTED,
    "a\0b": UNPRINTED, "a\x1b[2Jb": UNPRINTED, "\udcff": UNPRINTED, f"{OWN}/{MANIFEST}": RESERVED,
    MANIFEST: RESERVED, "fine/b/c": "would be inside another file",
}  # fmt: skip


@pytest.mark.parametrize(("name", "why"), REFUSED.items())
def test_a_name_that_leads_out_or_cannot_be_a_files_is_refused(name: str, why: str) -> None:
    with pytest.raises(BadFileError) as refused:
        check_names(["fine", name], WHERE)
    assert refused.value.what == f"the name {name!r} {why}"
    assert (refused.value.where, refused.value.remedy) == (
        WHERE,
        "rename or remove it there; nothing was transferred",
    )


@given(st.sets(st.text(alphabet="ab./\\:é\n\0", max_size=8), max_size=4))
def test_names_that_are_taken_are_files_of_the_folder_side_by_side(names: set[str]) -> None:
    try:
        check_names(names, WHERE)
    except BadFileError:
        return
    folder = Path("/folder")
    paths = {folder / name for name in names}
    assert all(path.is_relative_to(folder) and ".." not in path.parts for path in paths)
    assert len(paths) == len(names)
    assert not any(set(path.parents) & paths for path in paths)


def test_each_file_is_moved_once_some_at_a_time_and_lines_come_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ci.jobs.transfer.LINE_EVERY_S", 0.001)
    done: list[str] = []
    said: list[str] = []
    running = threading.Semaphore(AT_ONCE)

    def work(name: str, seen: Callable[[int], object]) -> None:
        assert running.acquire(blocking=False)
        seen(1)
        time.sleep(0.001)
        done.append(name)
        running.release()

    _each("moved", work, {str(number): 1 for number in range(500)}, said.append)
    assert len(done) == len(set(done)) == 500
    assert re.fullmatch(r"moved \d+ KiB of \d+ KiB", said[0])


@pytest.mark.parametrize("error", [RuntimeError("away"), KeyboardInterrupt()])
def test_the_first_that_fails_ends_the_others(error: BaseException) -> None:
    begun: list[str] = []

    def work(name: str, seen: Callable[[int], object]) -> None:
        begun.append(name)
        if name == "1":
            raise error
        for _ in range(6000):
            time.sleep(0.01)
            seen(1)

    before = time.monotonic()
    with pytest.raises(type(error)):
        _each("moved", work, {str(number): 1 for number in range(1000)}, print)
    assert time.monotonic() - before < 30
    # Some begin until the error is seen, and most of the thousand never do.
    assert len(begun) <= 10 * AT_ONCE
