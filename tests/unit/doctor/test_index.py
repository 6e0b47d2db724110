"""Which index has the torch that is pinned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import Tag

from ci.doctor.finding import Level
from ci.doctor.index import IndexFacts, State, judge_indexes, judge_own, names_of, state_of

TAGS = [Tag("cp311", "cp311", "manylinux_2_28_x86_64"), Tag("py3", "none", "any")]
OURS = "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl"
ONE = IndexFacts(shown="https://a/simple", state="has")
TWO = IndexFacts(shown="https://b/simple", state="none", setting="extra-index-url")


@pytest.mark.parametrize(
    ("names", "state"),
    [
        ([OURS], "has"),
        (["torch-2.13.0+cpu-py3-none-any.whl"], "has"),
        (["torch-2.13.0.tar.gz"], "has"),
        (["torch-2.13.0-cp310-cp310-macosx_11_0_arm64.whl"], "other"),
        (["torch-2.12.0-py3-none-any.whl", "torch-2.13.0rc1-py3-none-any.whl"], "lacks"),
        (["torchvision-0.1-py3-none-any.whl", "index.html", "torch-x.whl", ""], "none"),
        ([], "none"),
    ],
)
def test_what_files_of_torch_come_to(names: list[str], state: State) -> None:
    assert state_of(names, "2.13.0", TAGS) == state


def test_any_torch_will_do_where_no_pin_is_known() -> None:
    assert state_of(["torch-1.0-py3-none-any.whl"], "", TAGS) == "has"


def test_a_name_of_millions_of_tags_is_no_wheels() -> None:
    """A name stands for each pair of its tags, so that few letters make many of them."""
    pythons, machines = (".".join(f"{kind}{one}" for one in range(30)) for kind in "pm")
    tags = frozenset({Tag("p1", "none", "m1")})
    assert state_of([f"torch-2.13.0-{pythons}-none-m1.whl"], "2.13.0", tags) == "has"
    assert state_of([f"torch-2.13.0-{pythons}-{pythons}-{machines}.whl"], "2.13.0", tags) == "none"
    assert state_of([f"torch-2.13.0-py3-none-{'a' * 300}.whl"], "2.13.0", tags) == "none"


@given(st.lists(st.text(max_size=40)))
def test_no_name_of_an_index_makes_it_fall_over(names: list[str]) -> None:
    assert state_of([*names, OURS], "2.13.0", TAGS) == "has"
    assert isinstance(names_of("".join(f"<a href='x'>{name}</a>" for name in names)), list)


def test_files_of_a_page_are_those_it_links_to() -> None:
    page = f'<html><a href="../{OURS}#sha256=1">{OURS}</a><a>torch-1.tar.gz </a><a href="/">Home</a>'
    assert names_of(page) == [OURS, "torch-1.tar.gz"]


def test_one_that_has_it_is_enough_and_the_others_are_told() -> None:
    away = replace(TWO, state="away", why="it cannot be reached: refused")
    first, second = judge_indexes([away, ONE], pin="2.13.0", installs=True)
    assert (first.level, first.said) == (
        Level.OK,
        "torch 2.13.0 is to be had of https://a/simple (2 places asked)",
    )
    assert second.level is Level.WARNING
    assert [one.level for one in judge_indexes([TWO, ONE], pin="2.13.0", installs=True)] == [Level.OK]


@pytest.mark.parametrize(
    ("one", "words", "remedy"),
    [
        (replace(ONE, state="login"), "shows nothing without a login", "put one that may read into ~/.netrc"),
        (replace(ONE, state="login", signed_in=True), "refuses the login in its address", "mend the user"),
        (
            replace(ONE, state="away", why="it cannot be reached: x"),
            "cannot be used: it cannot be reached: x",
            "check the network",
        ),
        (replace(ONE, state="odd", why="it names no file"), "is no package index", "check the address"),
        (replace(ONE, state="lacks"), "has torch, and not torch 2.13.0", "name an index that has it"),
        (replace(ONE, state="other"), "no wheel of it for this Python", "use a Python"),
        (replace(ONE, state="none"), "has no torch", "name an index that has it"),
    ],
)
def test_each_way_not_to_have_it_is_told_apart(one: IndexFacts, words: str, remedy: str) -> None:
    (found,) = judge_indexes([one], pin="2.13.0", installs=True)
    assert found.level is Level.FAULT
    assert words in found.said
    assert found.remedy.startswith(remedy)
    # Where nothing is installed for a run, it does without.
    (found,) = judge_indexes([one], pin="2.13.0", installs=False)
    assert found.level is Level.WARNING


def test_what_lacks_it_is_a_detail_where_another_could_not_be_asked() -> None:
    found = judge_indexes([replace(ONE, state="away", why="x"), TWO], pin="2.13.0", installs=True)
    assert [one.level for one in found] == [Level.FAULT, Level.WARNING]


def test_no_index_at_all_is_a_fault() -> None:
    (found,) = judge_indexes([], pin="2.13.0", installs=True, note="; so it is")
    assert (found.level, found.said) == (Level.FAULT, "pip is told to ask no index; so it is")


def test_an_index_that_is_published_to_only_has_to_answer() -> None:
    own = [replace(one, setting="package.indexes.stage") for one in (TWO, replace(ONE, state="login"))]
    first, second = judge_own(own)
    assert (first.level, first.said) == (Level.OK, "https://b/simple of package.indexes.stage answers")
    assert second.level is Level.FAULT
