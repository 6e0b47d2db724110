from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci.core.github.errors import GitHubAwayError
from ci.webhooks.difference import Action, Change, body_of, difference
from ci.webhooks.model import Hook, identity

URL = "https://j.example.com/h/"
ACTING = {Action.CREATE, Action.UPDATE, Action.DELETE}
Row = Mapping[str, Any]


def hook(url: str = URL, **values: object) -> Hook:
    return Hook.model_validate({"url": url, "events": ["push"], "secret": "SPYRE_CI_WEBHOOK_S", **values})


def row(hook_id: int, **config: object) -> Row:
    """A hook as it would be there, but for what is given."""
    made = {"id": hook_id, **body_of(hook(), "s")}
    top = {key: config.pop(key) for key in ("events", "active") if key in config}
    return made | top | {"config": {**made["config"], **config}}


def differ(there: Sequence[Row], **flags: bool) -> list[Change]:
    return difference([hook()], there, ours=frozenset({identity(URL)}), **flags)


def test_what_differs_is_named_with_both_values() -> None:
    there = row(
        4, url="https://me:hunter2@J.example.com/h", events=["pull_request"], content_type="form",
        insecure_ssl=1, active=False, secret=None,
    )  # fmt: skip
    (change,) = differ([there])
    assert (change.action, change.hook_id) == (Action.UPDATE, 4)
    assert change.fields == {
        "url": ("https://J.example.com/h", URL),
        "events": ("pull_request", "push"),
        "content_type": ("form", "json"),
        "ssl_verification": ("false", "true"),
        "active": ("false", "true"),
        "secret": ("none", "set"),
    }


def test_of_duplicates_the_one_that_needs_least_stays_and_all_others_are_named() -> None:
    told = differ([row(3, active=False), row(4), row(5)])
    assert [(one.action, one.hook_id) for one in told] == [
        (Action.KEEP, 4), (Action.EXTRA, 3), (Action.EXTRA, 5),
    ]  # fmt: skip
    assert told[1].why == "a duplicate of hook 4: each event is delivered again (--prune deletes it)"


def test_to_rotate_is_to_update_what_is_right_as_well() -> None:
    (change,) = differ([row(4)], rotate=True)
    assert (change.action, change.fields, change.why) == (Action.UPDATE, {}, "its secret is set again")


# --- whatever there is: the difference, applied, gives what is wanted, and a second one is empty ---

PATHS = ("/a", "/a/", "/b?token=old", "/b", "/c?token=x", "/d?job=a")
WANTED = ("/a", "/b/", "/d")
ALL_OURS = frozenset(identity(f"https://j.example.com{path}") for path in WANTED)
HOSTS = ["j.example.com", "J.example.com", "o.example.com"]
urls = st.builds("https://{}{}".format, st.sampled_from(HOSTS), st.sampled_from(PATHS))
events = st.lists(st.sampled_from(["push", "pull_request", "create"]), min_size=1, max_size=3)
kinds = st.sampled_from(["json", "form"])
wishes = st.lists(
    st.builds(
        lambda path, listed, kind, ssl, active: hook(
            f"https://j.example.com{path}", events=listed, content_type=kind, ssl_verification=ssl,
            active=active,
        ),
        st.sampled_from(WANTED), events, kinds, st.booleans(), st.booleans(),
    ),
    max_size=3, unique_by=lambda one: identity(one.url),
)  # fmt: skip
there_is = st.lists(
    st.builds(
        row, st.integers(1, 50), url=urls, events=events, content_type=kinds,
        insecure_ssl=st.sampled_from([0, 1, "0", "1", None]), active=st.booleans(),
        secret=st.sampled_from(["*", None]),
    ),
    max_size=6, unique_by=lambda one: one["id"],
)  # fmt: skip


def url_of(there: Row) -> str:
    return str(there["config"]["url"])


def applied(changes: Sequence[Change], before: Sequence[Row]) -> list[Row]:
    """What GitHub would have after the changes, through the very bodies that it is sent."""
    after, fresh = {one["id"]: one for one in before}, itertools.count(100)
    for change in changes:
        if change.action is Action.DELETE:
            del after[change.hook_id]
        elif change.action in ACTING and change.hook is not None:
            number = next(fresh) if change.hook_id is None else change.hook_id
            after[number] = {"id": number, **body_of(change.hook, "s")}
    return list(after.values())


@given(wishes, there_is, st.booleans(), st.booleans())
def test_the_difference_applied_gives_what_is_wanted_and_leaves_others_alone(
    wanted: list[Hook], before: list[Row], prune: bool, rotate: bool
) -> None:
    changes = difference(wanted, before, ours=ALL_OURS, prune=prune, rotate=rotate)
    after = applied(changes, before)
    again = difference(wanted, after, ours=ALL_OURS, prune=prune)
    assert not [one for one in again if one.action in ACTING]
    for one in wanted:
        assert [each for each in after if url_of(each) == one.url]
    ours = [url_of(one) for one in after if identity(url_of(one)) in ALL_OURS]
    if prune:
        assert sorted(ours) == sorted(one.url for one in wanted)
    else:
        assert {one["id"] for one in before} <= {one["id"] for one in after}
    others = [one for one in before if identity(url_of(one)) not in ALL_OURS]
    assert [one for one in after if one in others] == others
    ids = [one.hook_id for one in changes if one.hook_id is not None]
    assert len(ids) == len(set(ids))


anything: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["url", "secret", "insecure_ssl"]), inside, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "config", "events", "active"]), anything, max_size=4))
def test_of_whatever_the_api_says_comes_a_hook_or_an_error(there: dict[str, object]) -> None:
    try:
        differ([there], prune=True)
    except GitHubAwayError:
        return
