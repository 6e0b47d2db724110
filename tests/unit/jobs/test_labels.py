"""Labels and annotations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.jobs.labels import (
    LONGEST,
    annotations_of,
    found_by,
    job_name,
    label_value,
    labels_of,
    origin_of,
    selector,
)
from tests.job_specs import COMMIT, RUN, job_of, spec_of


def test_everything_of_a_job_is_found_by_its_name() -> None:
    assert selector("a-b") == "app.kubernetes.io/name=a-b,app.kubernetes.io/managed-by=spyre-ci"
    job = job_of(spec_of("serve"))
    assert found_by(job.name).items() <= labels_of(job).items()


def test_a_run_id_that_is_a_labels_value_stays_as_it_is() -> None:
    assert label_value(RUN) == RUN


@given(st.text(max_size=300))
def test_any_run_id_becomes_a_labels_value(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", label_value(text))


def test_run_ids_that_differ_in_what_labels_cannot_hold_stay_apart() -> None:
    texts = ["a/b", "a b", "a" * 80, "a" * 81, "ä", "ö", "", "-"]
    assert len({label_value(text) for text in texts}) == len(texts)


def test_a_job_is_tagged_with_what_it_was_made_of() -> None:
    job = job_of(spec_of("tests"), dirty=True)
    assert origin_of(job) == {
        "spyre-ci.io/commit": COMMIT,
        "spyre-ci.io/dirty": "true",
        "spyre-ci.io/fingerprint": "5e" * 32,
        "spyre-ci.io/run-id": RUN,
    }


def test_what_is_of_no_checkout_tells_of_none() -> None:
    assert origin_of(job_of(spec_of("serve"), commit="")) == {"spyre-ci.io/run-id": RUN}


def test_tags_that_annotations_do_not_hold_are_told() -> None:
    tags = {f"tag-{number}": "x" * 500 for number in range(600)}
    with pytest.raises(
        SettingsError, match=r"the tags hold 304,\d{3} bytes, and annotations 262,016 at most"
    ):
        annotations_of(job_of(spec_of("serve", tags=tags)))


# As the spec takes them.
WORDS = st.from_regex(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?", fullmatch=True)


@given(WORDS, st.text())
def test_a_name_is_a_dns_label_with_room_for_a_pods_index(word: str, seed: str) -> None:
    name = job_name(word, seed)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= LONGEST
    # What the controller makes of it: the job, an index of four digits, five letters.
    assert len(f"{name}-4095-abcde") <= 63
    assert name.startswith(f"{word}-")


@given(WORDS, st.text())
def test_a_seed_always_gives_the_same_name(word: str, seed: str) -> None:
    assert job_name(word, seed) == job_name(word, seed)


def test_the_name_of_a_run_stays_what_it_is() -> None:
    assert job_name("tests", "2026-11-23-nightly-main-0042") == "tests-plain-oak-92e5e"


def test_runs_and_words_have_names_of_their_own() -> None:
    names = {job_name(word, f"run-{number}") for word in ("tests", "serve") for number in range(5_000)}
    assert len(names) == 10_000
