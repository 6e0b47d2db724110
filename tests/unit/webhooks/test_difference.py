from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.addresses import host_of
from ci.core.github.errors import GitHubAwayError
from ci.webhooks.difference import Change, Deed, Seen, difference
from ci.webhooks.hub import body_of, seen_of
from ci.webhooks.model import Hook, identity, target, with_token

URL = "https://j.example.com/h/"
OURS = frozenset({target(URL)})


def hook(url: str = URL, **given: object) -> Hook:
    return Hook.model_validate({"url": url, "events": ["push"], "secret": "SPYRE_CI_WEBHOOK_S", **given})


def seen(hook_id: int, wished: Hook, **changed: object) -> Seen:
    """A hook as it would be there."""
    values = {
        "id": hook_id, "url": wished.url, "events": frozenset(wished.events),
        "content_type": wished.content_type, "insecure_ssl": not wished.ssl_verification,
        "active": wished.active, "has_secret": True,
    }  # fmt: skip
    return Seen(**{**values, **changed})  # type: ignore[arg-type]  # names of a table


def deeds(changes: Sequence[Change]) -> list[tuple[Deed, int | None]]:
    return [(one.deed, one.hook_id) for one in changes]


def test_one_that_is_missing_is_created_and_one_that_is_right_left_alone() -> None:
    first, second = hook(), hook("https://j.example.com/two")
    assert deeds(difference([first, second], [seen(4, second)])) == [(Deed.CREATE, None), (Deed.LEAVE, 4)]


def test_what_differs_is_named_with_both_values() -> None:
    there = seen(
        4, hook(), events=frozenset({"pull_request"}), content_type="form", insecure_ssl=True, active=False,
        has_secret=False,
    )  # fmt: skip
    (change,) = difference([hook()], [there])
    assert deeds([change]) == [(Deed.UPDATE, 4)]
    assert [(one.name, one.seen, one.wished) for one in change.fields] == [
        ("events", "pull_request", "push"),
        ("content_type", "form", "json"),
        ("ssl_verification", "false", "true"),
        ("active", "false", "true"),
        ("secret", "none", "set"),
    ]


def test_the_order_of_events_and_one_that_stands_twice_make_no_difference() -> None:
    wished = hook(events=["push", "pull_request", "push"])
    assert not difference([wished], [seen(1, wished, events=frozenset({"pull_request", "push"}))])[0].differs


def test_a_last_slash_is_mended_and_makes_no_second_hook() -> None:
    (change,) = difference([hook()], [seen(4, hook(), url="https://J.example.com/h")])
    assert (change.deed, [one.name for one in change.fields]) == (Deed.UPDATE, ["url"])


def test_of_duplicates_the_one_that_needs_least_stays_and_the_others_are_named() -> None:
    there = [seen(3, hook(), active=False), seen(4, hook()), seen(5, hook())]
    told = difference([hook()], there)
    assert deeds(told) == [(Deed.LEAVE, 4), (Deed.EXTRA, 3), (Deed.EXTRA, 5)]
    assert told[1].why == "a duplicate of hook 4: each event is delivered again (--prune deletes it)"
    assert deeds(difference([hook()], there, prune=True))[1:] == [(Deed.DELETE, 3), (Deed.DELETE, 5)]


def test_only_hooks_of_our_urls_are_pruned_and_others_of_our_host_told() -> None:
    others = [seen(2, hook("https://j.example.com/old")), seen(3, hook("https://chat.example.com/h"))]
    there = [seen(1, hook(), url="https://J.example.com:443/h?token=x"), *others]
    assert deeds(difference([], there, ours=OURS)) == [(Deed.EXTRA, 1), (Deed.EXTRA, 2)]
    told = difference([], there, ours=OURS, prune=True)
    assert deeds(told) == [(Deed.DELETE, 1), (Deed.EXTRA, 2)]
    assert told[1].why == "no URL of `hooks`: delete it by hand, or name it under `keep`"
    assert difference([], there, ours=frozenset(), prune=True) == ()


def test_another_port_or_a_longer_name_is_another_host() -> None:
    urls = ("https://j.example.com:8443/x", "https://jj.example.com/x", "https://j.example.com.evil.org/x")
    there = [seen(number, hook(url)) for number, url in enumerate(urls, 1)]
    assert difference([], there, ours=OURS, prune=True) == ()


def test_hooks_to_keep_are_neither_told_nor_pruned_whatever_their_token() -> None:
    there = [seen(1, hook(), url="https://j.example.com/theirs?token=abc")]
    assert difference([], there, ours=OURS, keep=["https://j.example.com/theirs/"], prune=True) == ()


def test_to_rotate_is_to_update_what_is_right_as_well() -> None:
    (change,) = difference([hook()], [seen(4, hook())], rotate=True)
    assert (change.deed, change.fields, change.why) == (Deed.UPDATE, (), "its secret is set anew")


def test_a_hook_with_another_token_or_none_gets_the_new_one() -> None:
    wished = with_token(hook(), "new+token/=")
    assert wished.url == URL + "?token=new%2Btoken%2F%3D"
    for there, told in ((URL + "?token=old", "another"), (URL, "none")):
        (change,) = difference([wished], [seen(1, hook(), url=there)], ours=OURS)
        assert deeds([change]) == [(Deed.UPDATE, 1)]
        assert [(one.name, one.seen, one.wished) for one in change.fields] == [("token", told, "set")]
    (change,) = difference([hook()], [seen(1, hook(), url=URL + "?token=old")], ours=OURS)
    assert [(one.name, one.seen, one.wished) for one in change.fields] == [("token", "another", "none")]


def test_of_two_tokens_at_one_url_the_right_one_stays_and_the_other_is_a_duplicate() -> None:
    wished = with_token(hook(), "new")
    there = [seen(1, hook(), url=URL + "?token=old"), seen(2, wished)]
    assert deeds(difference([wished], there, ours=OURS)) == [(Deed.LEAVE, 2), (Deed.EXTRA, 1)]
    assert deeds(difference([wished], there, ours=OURS, prune=True)) == [(Deed.LEAVE, 2), (Deed.DELETE, 1)]


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://j.example.com/h", True),
        ("HTTPS://J.EXAMPLE.COM:443/h/", True),
        ("https://somebody:word@j.example.com/h/", True),
        ("https://j.example.com/%68/", True),
        ("https://j.example.com/h/#top", True),
        ("http://j.example.com/h/", False),
        ("https://j.example.com:80/h/", False),
        ("https://j.example.com/H/", False),
        ("https://j.example.com/%2Fh/", False),
        ("https://j.example.com/h/?job=a", False),
    ],
)
def test_another_spelling_of_a_url_is_no_other_hook(url: str, same: bool) -> None:
    told = difference([hook()], [seen(1, hook(), url=url)])
    assert deeds(told)[0] == ((Deed.UPDATE, 1) if same else (Deed.CREATE, None))


def test_escapes_of_a_url_are_compared_and_never_taken_for_what_they_escape() -> None:
    assert identity("https://h/a%2fb%7e") == identity("https://h/a%2Fb~") != identity("https://h/a/b~")
    assert identity("https://h/%") == "https://h/%"


def test_a_url_nobody_can_read_is_no_host_of_ours() -> None:
    for url in ("", "mailto:x", "https://[::1", "https://h:port/"):
        assert identity(url) is not None
        assert host_of(url) != host_of(URL)


# --- whatever there is: the difference, applied, gives what is wished, and a second one is empty ---

PATHS = ("/a", "/a/", "/%61", "/b?token=old", "/b", "/c?token=x", "/d?job=a")
WISHED = ("/a", "/b/", "/d")
ALL_OURS = frozenset(target(f"https://j.example.com{path}") for path in WISHED)
urls = st.builds("https://{}{}".format, st.sampled_from(["j.example.com", "J.example.com", "o.example.com"]),
                 st.sampled_from(PATHS))  # fmt: skip
events = st.lists(st.sampled_from(["push", "pull_request", "create"]), min_size=1, max_size=3)
wishes = st.lists(
    st.builds(
        lambda path, listed, kind, ssl, active: hook(
            f"https://j.example.com{path}", events=listed, content_type=kind, ssl_verification=ssl,
            active=active,
        ),
        st.sampled_from(WISHED), events, st.sampled_from(["json", "form"]), st.booleans(),
        st.booleans(),
    ),
    max_size=3, unique_by=lambda one: identity(one.url),
)  # fmt: skip
there_is = st.lists(
    st.builds(
        Seen, id=st.integers(1, 50), url=urls, events=events.map(frozenset),
        content_type=st.sampled_from(["json", "form"]), insecure_ssl=st.booleans(), active=st.booleans(),
        has_secret=st.booleans(),
    ),
    max_size=6, unique_by=lambda one: one.id,
)  # fmt: skip


def applied(changes: Sequence[Change], before: Sequence[Seen]) -> list[Seen]:
    """What GitHub would have after the changes, through the very bodies that it is sent."""
    after, fresh = {one.id: one for one in before}, itertools.count(100)
    for change in changes:
        if change.deed is Deed.DELETE and change.hook_id is not None:
            del after[change.hook_id]
        elif change.acts and change.hook is not None:
            number = next(fresh) if change.hook_id is None else change.hook_id
            after[number] = seen_of({"id": number, **body_of(change.hook, "s")})
    return list(after.values())


@given(wishes, there_is, st.booleans(), st.booleans())
def test_the_difference_applied_gives_what_is_wished(
    wished: list[Hook], before: list[Seen], prune: bool, rotate: bool
) -> None:
    changes = difference(wished, before, ours=ALL_OURS, prune=prune, rotate=rotate)
    after = applied(changes, before)
    again = difference(wished, after, ours=ALL_OURS, prune=prune)
    assert not [one for one in again if one.acts]
    for one in wished:
        assert [each for each in after if each.url == one.url]
    if prune:
        ours = [one for one in after if target(one.url) in ALL_OURS]
        assert sorted(one.url for one in ours) == sorted(one.url for one in wished)


@given(wishes, there_is, st.booleans())
def test_whatever_is_done_others_hooks_are_as_they_were(
    wished: list[Hook], before: list[Seen], prune: bool
) -> None:
    after = applied(difference(wished, before, ours=ALL_OURS, prune=prune), before)
    others = [one for one in before if target(one.url) not in ALL_OURS]
    assert [one for one in after if one in others] == others


@given(wishes, there_is)
def test_without_prune_nothing_is_deleted(wished: list[Hook], before: list[Seen]) -> None:
    changes = difference(wished, before, ours=ALL_OURS)
    assert Deed.DELETE not in {one.deed for one in changes}
    assert {one.id for one in before} <= {one.id for one in applied(changes, before)}


@given(wishes, there_is)
def test_every_hook_gets_at_most_one_change(wished: list[Hook], before: list[Seen]) -> None:
    ids = [one.hook_id for one in difference(wished, before, ours=ALL_OURS) if one.hook_id is not None]
    assert len(ids) == len(set(ids))


anything: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["url", "secret", "insecure_ssl", "code"]), inside, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["id", "config", "events", "active", "last_response"]), anything, max_size=5
    )
)
def test_of_whatever_the_api_says_comes_a_hook_or_an_error(row: dict[str, object]) -> None:
    try:
        there = seen_of(row)
    except GitHubAwayError:
        return
    difference([hook()], [there], ours=OURS, prune=True)
