from __future__ import annotations

import contextlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import MissingInputError, UsageError
from ci.record.reproduce_line import at_commit, ref_of, reproduce_line
from ci.reproduce.ref import COMPARED, CiRun, HudPage, ci_run, find_test, hud_page, near_names

SHA = "0123456789abcdef0123456789abcdef01234567"
NODES = {
    "a.py::TestA::test_add[dtype=float32,op=add]": "test/a.py::TestASPYRE::test_add_spyre_float32",
    "a.py::TestA::test_add[dtype=float16,op=add]": "test/a.py::TestASPYRE::test_add_spyre_float16",
    "a.py::TestA::test_sub": "test/a.py::TestASPYRE::test_sub_spyre",
    "sub/b.py::test_sub": "",
}
ADD = next(iter(NODES))


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
    line = partial(reproduce_line, "-x", device="spyre", seed=7, ref="r")
    assert line() == "spyre-ci reproduce --run --device spyre --seed 7 -- -x r"
    assert "--attempt 2 -- -x r" in line(attempt=2)


@pytest.mark.parametrize(
    "named",
    [
        ADD,
        "test/a.py::TestASPYRE::test_add_spyre_float32",
        "a.py::TestASPYRE::test_add_spyre_float32",
        "dtype=float32",
        "add_spyre_float32",
    ],
)
def test_a_test_is_found_by_every_name_it_has(named: str) -> None:
    assert find_test(named, NODES, where="r") == ADD


def test_a_whole_id_is_meant_though_others_hold_it() -> None:
    assert find_test("a", {"a": "", "ab": ""}, where="r") == "a"


def test_several_are_listed_quoted_for_a_shell() -> None:
    with pytest.raises(UsageError, match=r"'add' is a part of 2 tests: 'a\.py::TestA.*float32.*float16"):
        find_test("add", NODES, where="r")


def test_of_very_many_the_first_are_listed() -> None:
    with pytest.raises(UsageError, match="t4, and 95 more"):
        find_test("t", {f"t{number}": "" for number in range(100)}, where="r")


def test_one_that_is_not_there_is_told_with_those_near_it() -> None:
    with pytest.raises(MissingInputError, match="no test is called") as caught:
        find_test("a.py::TestA::test_sup", NODES, where="the run")
    assert (caught.value.where, caught.value.exit_code) == ("the run", 2)
    assert "near it: a.py::TestA::test_sub" in str(caught.value)
    with pytest.raises(MissingInputError, match="as the run's report shows it"):
        find_test("zzz", NODES, where="r")


@pytest.mark.parametrize("named", ["", "  ", "x" * 30_000])
def test_no_name_is_no_test(named: str) -> None:
    with pytest.raises(UsageError, match="no test is named"):
        find_test(named, NODES, where="r")


def test_what_is_near_is_looked_for_among_few() -> None:
    names = [f"file_{number}.py::T::x" for number in range(3 * COMPARED)]
    assert near_names(f"file_{3 * COMPARED - 1}.py::T::y", names)[0].startswith("file_")


@given(st.text(min_size=1), st.lists(st.text(min_size=1), unique=True))
def test_whatever_is_named_is_a_test_of_the_run_or_an_error(named: str, names: list[str]) -> None:
    with contextlib.suppress(UsageError, MissingInputError):
        assert find_test(named, dict.fromkeys(names, ""), where="r") in names
