"""What Git's answers mean; without Git."""

from __future__ import annotations

import pytest

from ci.core.git import Entry, changes, index_entries
from ci.package.project import is_release

SHA = "a" * 40


def test_changed_and_untracked_files_are_told_apart() -> None:
    status = "\0".join(
        [
            "# branch.oid abc",
            f"1 .M N... 100644 100644 100644 {SHA} {SHA} a b.py",
            f"1 .D N... 100644 100644 000000 {SHA} {SHA} gone.py",
            f"1 .M S.M. 160000 160000 160000 {SHA} {SHA} changed-inside",
            f"1 .M SC.U 160000 160000 160000 {SHA} {SHA} at-another-commit",
            f"1 .M S..U 160000 160000 160000 {SHA} {SHA} new-files-inside",
            f"u UU N... 100644 100644 100644 100644 {SHA} {SHA} {SHA} both sides",
            "? new\nname",
            "! ignored",
            "",
        ]
    )
    assert changes(status) == (
        ["a b.py", "gone.py", "changed-inside", "at-another-commit", "both sides"],
        ["new-files-inside", "new\nname"],
    )


def test_files_git_was_told_not_to_look_at_are_marked() -> None:
    listed = "".join(
        f"{tag} 100644 {SHA} 0\t{name}\0"
        for tag, name in [("H", "a\tb"), ("S", "s"), ("h", "h"), ("s", "both")]
    )
    assert index_entries(listed) == [
        Entry(name="a\tb", mode="100644"),
        Entry(name="s", mode="100644", hidden=True),
        Entry(name="h", mode="100644", hidden=True),
        Entry(name="both", mode="100644", hidden=True),
    ]


@pytest.mark.parametrize(
    ("tag", "prefix", "release"),
    [
        ("v1.2.3", "v", True),
        ("v1.2.3rc1", "v", True),
        ("v2-branch-point", "v", False),
        ("v1.2.3-old", "v", False),
        ("viable/strict", "v", False),
        ("vv1", "v", False),
        ("1.2", "v", False),
        ("1.2", "", True),
        ("v1.2", "", False),
        ("demo/v1.2", "demo/v", True),
    ],
)
def test_a_release_tag_is_the_prefix_and_a_version(tag: str, prefix: str, release: bool) -> None:
    assert is_release(tag, prefix) is release
