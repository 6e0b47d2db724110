"""What releases name, all of them, and what a broken one does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.report.released import read_released, words_of
from tests.retention_world import DIGEST, put, release_of


def test_every_release_counts_and_not_only_the_newest(tmp_path: Path) -> None:
    put(tmp_path / "dist" / "release.json", "release", release_of("a", image=f"reg/x@sha256:{DIGEST}"))
    put(tmp_path / "dist" / "old" / "release.json", "release", release_of("b", run_id=12))
    put(tmp_path / "records" / "1.0.json", "release", release_of("c"))
    found = read_released([tmp_path / "dist", tmp_path / "records", tmp_path / "none"])
    assert all(found.names_run(name, None) for name in "abc")
    assert found.names_run("z", 12)
    assert not found.names_run("z", 13)
    assert DIGEST in found.digests
    assert found.files == 3
    assert found.broken == []


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "unit.json", "package-unit", {"runs": ["a"]})
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "a.whl").write_bytes(b"x")
    found = read_released([tmp_path])
    assert (found.files, found.broken, found.words) == (0, [], set())


def broken(path: Path) -> list[str]:
    return [why for _, why in read_released([path]).broken]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("release.json", "{", "cannot be read as JSON"),
        ("release.json", "", "cannot be read as JSON"),
        ("release.json", "[]", "is no release.json"),
        ("release.json", '{"schema": "spyre-ci/release/2"}', "is no release.json"),
        (
            "release.json",
            '{"schema": "spyre-ci/release/1"}',
            "a key is missing or of the wrong kind: 'image'",
        ),
        (
            "release.json",
            '{"schema": "spyre-ci/release/1", "runs": [{"identity": {"run": 3}}], "image": ""}',
            "a key is missing or of the wrong kind: a run has no name",
        ),
        (
            "release.json",
            '{"schema": "spyre-ci/release/1", "runs": [], "image": null}',
            "a key is missing or of the wrong kind: its image is no text",
        ),
        ("release.json", "[" * 100_000, "cannot be read as JSON"),
        ("release-1.json", "{}", "is no release.json"),
    ],
)
def test_one_that_cannot_be_read_is_told(tmp_path: Path, name: str, content: str, why: str) -> None:
    (tmp_path / name).write_text(content)
    (told,) = broken(tmp_path)
    assert why in told
    assert told


def test_links_to_folders_are_followed_and_loops_end(tmp_path: Path) -> None:
    put(tmp_path / "srv" / "release.json", "release", release_of("far"))
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "latest").symlink_to(tmp_path / "srv")
    (tmp_path / "srv" / "round").symlink_to(tmp_path / "dist")
    found = read_released([tmp_path / "dist"])
    assert found.names_run("far", None)
    assert found.files == 1


def test_a_link_that_leads_nowhere_is_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "release.json").symlink_to(tmp_path / "gone.json")
    assert len(broken(tmp_path)) == 1


def test_a_folder_in_its_place_is_a_broken_one_where_it_is_named(tmp_path: Path) -> None:
    found = read_released([], named=[tmp_path / "none", tmp_path / "unsure.txt"])
    assert [why for _, why in found.broken] == ["is not found", "is not found"]


def test_a_file_that_is_named_has_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "v1").write_text("{}")
    assert [why for _, why in read_released([], named=[tmp_path / "v1"]).broken] == ["is no release.json"]
    put(tmp_path / "v2", "release", release_of("r"))
    assert read_released([], named=[tmp_path / "v2"]).names_run("r", None)


def test_a_name_with_blanks_or_signs_is_found_whole() -> None:
    assert {"my run, 2", "/srv/runs/my run, 2", "runs", "my"} <= words_of("/srv/runs/my run, 2")
    assert {"--resume=latest-1", "latest-1"} <= words_of("--resume=latest-1")


def test_what_a_real_release_says_of_a_run_is_read(tmp_path: Path) -> None:
    """The very function that reads a run for a release is asked."""
    from ci.package.release import read_run  # noqa: PLC0415  # only here

    identity = {"run": "r 1", "run_id": 77, "url": "", "stage": 1, "percent": 5.0, "pytorch_sha": "x"}
    summary = {"identity": identity, "exit_code": 0, "planned": 1, "verdicts": {"passed": 1}}
    put(tmp_path / "summary.json", "summary", summary)
    content = release_of(image=f"reg/x@sha256:{DIGEST}") | {"runs": [read_run(tmp_path)]}
    put(tmp_path / "release.json", "release", content)
    found = read_released([tmp_path])
    assert found.broken == []
    assert found.names_run("r 1", None)
    assert found.names_run("", 77)
    assert DIGEST in found.digests


def test_a_named_pipe_is_a_broken_one_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "release.json")
    os.mkfifo(tmp_path / "notes.json")
    found = read_released([tmp_path])
    assert [(path.name, why) for path, why in found.broken] == [("release.json", "is no plain file")]
