from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.github.errors import GitHubAwayError
from ci.webhooks.heads import (
    KEEP_S,
    Head,
    Note,
    branch_of,
    decide,
    kept,
    prefixes,
    pull_request_of,
    trusted,
    wanted,
)
from ci.webhooks.model import Branches, PullRequests

A, B, C = "a" * 40, "b" * 40, "c" * 40
PULLS = PullRequests.model_validate({"job": "j"})
MAIN = Branches.model_validate({"job": "j", "names": ["main", "release/*"]})


def pull(number: int, sha: str = A, **given: Any) -> Head:
    return Head.model_validate({"sha": sha, "branch": "main", "number": number, **given})


def note(how: str, gone_at: float | None = None) -> Note:
    return Note.model_validate({"how": how, "gone_at": gone_at})


def starts(*args: Any, **more: Any) -> list[str]:
    return [one.sha for one in decide(*args, **more).start]


def test_a_first_pass_notes_what_is_there_and_starts_none_of_it() -> None:
    told = decide(PULLS, [pull(1, A), pull(2, B)], None)
    assert (told.start, told.seen) == ((), frozenset({A, B}))


def test_a_first_pass_notes_nothing_that_could_not_be_started_now() -> None:
    rule = PullRequests.model_validate({"job": "j", "bases": ["main"]})
    stranger = pull(3, C, own=False, association="NONE")
    told = decide(rule, [pull(1, A), pull(2, B, branch="other"), stranger], None)
    assert (told.start, told.seen, told.refused) == ((), frozenset({A}), (stranger,))
    # Once they lead to main, or are no stranger's any more, they are started.
    known = {A: note("seen"), C: note("refused")}
    assert starts(rule, [pull(2, B), pull(3, C)], known) == [B, C]


def test_a_first_pass_starts_everything_where_it_is_told_to() -> None:
    assert starts(PULLS, [pull(2, B), pull(1, A)], None, everything=True) == [A, B]


def test_a_new_head_is_started_and_what_is_known_is_not() -> None:
    assert starts(PULLS, [pull(1, A), pull(2, B)], {A: note("seen")}) == [B]
    assert starts(PULLS, [pull(1, A)], {A: note("started")}) == []


def test_a_forced_push_is_a_new_head_and_a_push_back_is_none() -> None:
    known = {A: note("started")}
    assert starts(PULLS, [pull(1, B)], known) == [B]
    assert starts(PULLS, [pull(1, A)], known | {B: note("started")}) == []


def test_a_start_whose_answer_is_not_known_is_tried_again_and_said_to_be_doubtful() -> None:
    told = decide(PULLS, [pull(1, A), pull(2, B)], {A: note("starting")})
    assert ([one.sha for one in told.start], told.doubtful) == ([A, B], frozenset({A}))


def test_a_commit_of_two_pull_requests_is_started_once() -> None:
    assert starts(PULLS, [pull(2, A), pull(1, A)], {}) == [A]


def test_a_strangers_head_is_told_once_and_started_when_he_is_none_any_more() -> None:
    stranger = pull(1, A, own=False, association="NONE")
    assert decide(PULLS, [stranger], {}).refused == (stranger,)
    known = {A: note("refused")}
    assert decide(PULLS, [stranger], known) == decide(PULLS, [], {})
    assert starts(PULLS, [pull(1, A, own=False, association="CONTRIBUTOR")], known) == [A]


def test_a_commit_that_a_member_brings_as_well_is_started() -> None:
    told = decide(PULLS, [pull(1, A, own=False, association="NONE"), pull(2, A)], {})
    assert ([one.number for one in told.start], told.refused) == ([2], ())


@pytest.mark.parametrize(
    ("trust", "let_in"),
    [
        ("repository", {"own"}),
        ("members", {"own", "OWNER", "MEMBER", "COLLABORATOR"}),
        ("contributors", {"own", "OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"}),
        ("everyone", {"own", "OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIMER", "NONE", ""}),
    ],
)
def test_whose_pull_requests_are_started(trust: str, let_in: set[str]) -> None:
    rule = PullRequests.model_validate({"job": "j", "trust": trust})
    for who in ("own", "OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIMER", "NONE", ""):
        head = pull(1, own=who == "own", association="NONE" if who == "own" else who)
        assert trusted(rule, head) is (who in let_in), who


def test_only_branches_that_are_asked_for_are_started() -> None:
    rule = PullRequests.model_validate({"job": "j", "bases": ["main"]})
    assert starts(rule, [pull(1, A), pull(2, B, branch="other")], {}) == [A]
    fits = {name: wanted(MAIN, Head(sha=A, branch=name)) for name in ("main", "main2", "release/1", "x/main")}
    assert fits == {"main": True, "main2": False, "release/1": True, "x/main": False}


def test_what_is_forgotten_is_what_nothing_has_led_to_for_long() -> None:
    notes = kept({A: note("started"), B: note("started"), C: note("seen", 0)}, {B}, now=7)
    assert notes == {A: note("started", 7), B: note("started"), C: note("seen", 0)}
    # However long ago it was started: its time begins when nothing leads to it any more.
    assert set(kept(notes, {B}, now=KEEP_S)) == {A, B}
    assert kept(notes, {A}, now=KEEP_S + 7) == {A: note("started"), B: note("started", KEEP_S + 7)}


@pytest.mark.parametrize(
    ("names", "begins"),
    [
        (["main"], ("main",)),
        (["release/*", "release/1.*", "main"], ("main", "release/")),
        (["*"], ("",)),
        (["v?.x", "main", "*-stable"], ("",)),
        (["a*b?c"], ("a",)),
    ],
)
def test_branches_are_asked_for_by_what_they_begin_with(names: list[str], begins: tuple[str, ...]) -> None:
    assert prefixes(names) == begins


@given(st.lists(st.text("ab*?/", min_size=1, max_size=6), min_size=1, max_size=4), st.text("ab/", max_size=6))
def test_no_branch_is_missed_by_what_is_asked_for(names: list[str], branch: str) -> None:
    if not branch:
        return
    rule = Branches.model_construct(job="j", names=tuple(names))
    if wanted(rule, Head(sha=A, branch=branch)):
        asked = [begin for begin in prefixes(names) if branch.startswith(begin)]
        assert len(asked) == 1


def row(**changed: Any) -> dict[str, Any]:
    head = {"sha": A, "repo": {"full_name": "o/r"}}
    return {"number": 7, "author_association": "MEMBER", "head": head, "base": {"ref": "main"}, **changed}


def test_a_pull_request_is_read_of_the_api() -> None:
    assert pull_request_of(row(), "O/R") == pull(7, association="MEMBER")
    fork = row(head={"sha": A, "repo": {"full_name": "me/r"}})
    assert not pull_request_of(fork, "o/r").own
    gone = row(head={"sha": A, "repo": None})
    assert not pull_request_of(gone, "o/r").own


def test_a_branch_is_read_of_its_reference() -> None:
    ref = {"ref": "refs/heads/release/1", "object": {"sha": B, "type": "commit"}}
    assert branch_of(ref) == Head(sha=B, branch="release/1")


@pytest.mark.parametrize(
    ("bad", "key"),
    [
        (row(head={"sha": "HEAD; rm -rf /"}), "sha"),
        (row(head=None), "sha"),
        (row(number="x7"), "number"),
        (row(number=0), "number"),
        (row(base={"ref": "a\nb"}), "branch"),
        (row(base={}), "branch"),
    ],
)
def test_what_is_no_head_is_an_error_and_starts_nothing(bad: dict[str, Any], key: str) -> None:
    with pytest.raises(GitHubAwayError, match=f"holds something else.*{key}"):
        pull_request_of(bad, "o/r")


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(A),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["sha", "ref", "repo", "full_name", "object"]), inside, max_size=3)
    ),
    max_leaves=8,
)
rows = st.dictionaries(
    st.sampled_from(["number", "head", "base", "ref", "object", "author_association"]), anything, max_size=6
)


@given(rows)
def test_of_whatever_the_api_says_comes_a_head_or_an_error(row: dict[str, Any]) -> None:
    for read in (branch_of, lambda one: pull_request_of(one, "o/r")):
        try:
            head = read(row)
        except GitHubAwayError:
            continue
        assert len(head.sha) in {40, 64}


# --- whatever happens: nothing is lost, and nothing is started twice ---

SHAS = [letter * 40 for letter in "abcd"]
heads_now = st.lists(
    st.builds(pull, st.integers(1, 4), st.sampled_from(SHAS), own=st.booleans(), association=st.just("NONE")),
    max_size=4, unique_by=lambda one: one.number,
)  # fmt: skip


@given(st.lists(st.tuples(heads_now, st.lists(st.booleans(), min_size=4, max_size=4)), max_size=6))
def test_every_head_is_started_once_however_often_jenkins_is_away(
    passes: Sequence[tuple[list[Head], list[bool]]],
) -> None:
    known: dict[str, Note] | None = None
    started: list[str] = []
    for heads, taken in passes:
        first = known is None
        told = decide(PULLS, heads, known)
        known = (known or {}) | {sha: note("seen") for sha in told.seen}
        known |= {one.sha: note("refused") for one in told.refused}
        for head, took in zip(told.start, taken, strict=False):
            known[head.sha] = note("started" if took else "starting")
            started += [head.sha] if took else []
        own = {one.sha for one in heads if one.own}
        waiting = {one.sha for one in decide(PULLS, heads, known).start}
        # What may be started now is noted, started, or still waits.
        assert own <= {sha for sha, one in known.items() if one.how in {"seen", "started"}} | waiting
        assert not (first and told.start)
    assert len(started) == len(set(started))
