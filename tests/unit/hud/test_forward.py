from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, UsageError
from ci.hud.forward import MAX_INPUT_CHARACTERS, parse

from .conftest import REPOSITORY, bent


def test_what_is_handed_over_comes_out_as_it_went_in(payload: dict[str, Any]) -> None:
    for event in ("nightly", "periodic"):
        told = {**payload, "event_type": event}
        assert parse(json.dumps(told), repository=REPOSITORY) == told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no report"),
        (" \n", "there is no report"),
        ("{", "is not valid JSON"),
        ("[" * 60_000, "is not valid JSON"),
        ("7", "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ("x" * (MAX_INPUT_CHARACTERS + 1), f"more than {MAX_INPUT_CHARACTERS}"),
        ("{}", "delivery_id: is missing"),
        ('{"workflow": []}', "workflow: "),
    ],
)
def test_what_is_no_report_is_refused(text: str, said: str) -> None:
    with pytest.raises((BadFileError, UsageError), match=said) as caught:
        parse(text, repository=REPOSITORY)
    assert caught.value.where == "SPYRE_CI_REPORT"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("event_type", "pull_request", "payload.pull_request.number: is missing"),
        ("event_type", "push", "only nightly and periodic are forwarded"),
        ("trusted", {"verified_repo": "x"}, "'trusted' is not a key of a report"),
        ("payload.pull_request", {"number": 1}, "payload.'pull_request' is not a key of a report"),
        (
            "payload.repository.full_name",
            "evil/pytorch",
            "payload.repository.full_name: must be pytorch/pytorch",
        ),
        ("payload.repository", ..., "payload.repository.full_name: must be pytorch/pytorch (seen: 'None')"),
        ("payload.repository", None, "payload.repository: "),
        ("payload.repository.id", 7, "payload.repository.'id' is not a key of a report"),
        ("payload.spyre_ci.extra", 1, "payload.spyre_ci.'extra' is not a key of a report"),
        ("workflow.extra", 1, "workflow.'extra' is not a key of a report"),
        ("workflow.test_results.extra", 1, "workflow.test_results.'extra' is not a key of a report"),
        ("workflow.run_id", "x", "workflow.run_id: must be a whole number"),
        ("workflow.url", "javascript:alert(1)", "workflow.url: is not an http"),
        ("workflow.artifact_url", "file:///etc/passwd", "workflow.artifact_url: is not an http"),
    ],
)
def test_what_we_never_write_is_not_posted_with_our_name(
    payload: dict[str, Any], key: str, value: Any, said: str
) -> None:
    with pytest.raises(BadFileError) as caught:
        parse(json.dumps(bent(payload, key, value)), repository=REPOSITORY)
    assert said in str(caught.value)


def test_a_delivery_with_odd_characters_is_refused(payload: dict[str, Any]) -> None:
    odd = bent(bent(payload, "delivery_id", "a b"), "payload.head_sha", "a b")
    with pytest.raises(BadFileError, match="delivery_id: is neither a commit nor a version"):
        parse(json.dumps(odd), repository=REPOSITORY)


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["event_type", "delivery_id", "payload", "workflow", "repository", "status", "run_id"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    ).map(json.dumps)
)
def test_no_text_makes_a_traceback(text: str) -> None:
    with pytest.raises((BadFileError, UsageError)):
        parse(text, repository=REPOSITORY)
