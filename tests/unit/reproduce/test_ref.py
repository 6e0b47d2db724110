from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import UsageError
from ci.record.reproduce_line import Origin, at_commit, ref_of, reproduce_line
from ci.reproduce.ref import CiRun, HudPage, ci_run, hud_page

SHA = "0123456789abcdef0123456789abcdef01234567"


@given(st.sampled_from(["github", "jenkins"]), st.integers(1, 10**15), st.integers(1, 1000))
def test_what_a_line_calls_a_ci_s_run_is_read_as_that_run(provider: str, number: int, attempt: int) -> None:
    named = ref_of(run="ci", provider=provider, run_id=number, run_attempt=attempt)
    assert ci_run(named) == CiRun(provider=provider, run_id=number, attempt=attempt)


@pytest.mark.parametrize(
    "named", ["latest", "ci", "20260102-030405-spyre-stage1", "github-7", "runs/github-7.1"]
)
def test_another_name_is_no_ci_s_run(named: str) -> None:
    assert ci_run(named) is None


@pytest.mark.parametrize(
    ("run", "provider"), [("a b", "none"), ("-x", "none"), ("$(x)", ""), ("ci", "Evil;x")]
)
def test_a_name_that_is_more_than_one_is_in_no_line(run: str, provider: str) -> None:
    assert ref_of(run=run, provider=provider, run_id=1, run_attempt=1) == ""


@pytest.mark.parametrize(
    ("named", "page"),
    [
        ("http://127.0.0.1:8000/runs/7", HudPage(base="http://127.0.0.1:8000", number=7)),
        (
            "https://hud.example/x/runs/7/tests?verdict=failed#a",
            HudPage(base="https://hud.example/x", number=7),
        ),
        ("HTTP://h/api/runs/7", HudPage(base="http://h", number=7)),
        ("latest", None),
        ("runs/ci", None),
    ],
)
def test_a_page_of_a_hud_is_known(named: str, page: HudPage | None) -> None:
    assert hud_page(named) == page


@pytest.mark.parametrize(
    "named",
    ["https://github.com/o/r/actions/runs/7x", "file:///runs/7", "http:///runs/7", "http://[x/runs/7"],
)
def test_another_address_is_refused(named: str) -> None:
    with pytest.raises(UsageError, match="is no page of a run"):
        hud_page(named)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="user name or password") as caught:
        hud_page("https://me:s3cret@hud.example/runs/7")
    assert "s3cret" not in str(caught.value)


def test_a_source_is_taken_at_its_commit() -> None:
    assert at_commit("git+ssh://git@h/x@main", SHA) == f"git+ssh://git@h/x@{SHA}"
    assert at_commit("git+https://h/x@main", "2.13+sha256.ab") == "git+https://h/x@main"
    assert at_commit("/srv/tree", SHA) == "/srv/tree"


def test_the_first_try_needs_no_word() -> None:
    origin = Origin(device="spyre", seed=7, ref="r")
    assert reproduce_line("-x", origin) == "spyre-ci reproduce --run --device spyre --seed 7 -- -x r"
    assert "--attempt 2 -- -x r" in reproduce_line("-x", origin, 2)
