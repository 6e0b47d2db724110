"""Names of jobs."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ci.jobs.names import LONGEST, job_name

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
