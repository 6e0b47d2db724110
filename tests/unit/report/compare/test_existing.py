from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ci.report.compare.existing import Existence, Known, compare_catalogs, match

FILES = ("a.py", "b.py", "c.py")
names = st.builds(
    "{}::{}::{}".format, st.sampled_from(FILES), st.sampled_from("AB"), st.sampled_from(("t1", "t2[k=x::y]"))
)


def known(*ids: str, broken: Mapping[str, str] | None = None, partial: bool = False) -> Known:
    files = {name.partition("::")[0] for name in ids} | (broken or {}).keys()
    return Known(ids=frozenset(ids), files=files, broken=broken or {}, partial=partial)


def test_without_both_catalogs_nothing_is_said_to_have_come_or_gone() -> None:
    assert compare_catalogs(None, known("a.py::t")) == Existence()
    assert compare_catalogs(known("a.py::t"), None) == Existence()


def test_a_test_that_is_in_one_catalog_only_came_or_went() -> None:
    found = compare_catalogs(known("a.py::t", "a.py::new"), known("a.py::t", "b.py::old"))
    assert (found.appeared, found.vanished, found.moved) == (("a.py::new",), ("b.py::old",), {})


def test_a_file_that_was_renamed_moves_its_tests() -> None:
    tests = ("A::t1[x=1]", "A::t2", "t3")
    found = compare_catalogs(
        known(*(f"new/a.py::{one}" for one in tests)), known(*(f"a.py::{one}" for one in tests))
    )
    assert found.moved == {f"new/a.py::{one}": f"a.py::{one}" for one in tests}
    assert found.appeared == found.vanished == ()


def test_a_class_that_was_renamed_moves_its_tests_whatever_stands_in_parameters() -> None:
    found = compare_catalogs(
        known("a.py::B::t[k=x::y]", "a.py::u"), known("a.py::A::t[k=x::y]", "a.py::C::u")
    )
    assert found.moved == {"a.py::B::t[k=x::y]": "a.py::A::t[k=x::y]", "a.py::u": "a.py::C::u"}


def test_two_files_of_the_same_tests_are_told_apart_by_what_else_moved_between_them() -> None:
    went = ["a.py::T::x", "a.py::T::only_a", "b.py::T::x", "b.py::T::only_b"]
    came = [name.replace(".py", "_new.py") for name in went]
    assert match(came, went) == dict(zip(came, went, strict=True))


def test_where_several_could_be_meant_none_is() -> None:
    assert match(["new.py::T::x"], ["a.py::T::x", "b.py::T::x"]) == {}


def test_of_two_files_that_became_one_a_test_of_both_is_of_neither() -> None:
    went = ["a.py::T::x", "a.py::T::only_a", "b.py::T::x", "b.py::T::only_b"]
    found = match(["new.py::T::x", "new.py::T::only_a", "new.py::T::only_b"], went)
    assert found == {"new.py::T::only_a": "a.py::T::only_a", "new.py::T::only_b": "b.py::T::only_b"}


def test_tests_of_a_file_that_could_not_be_collected_are_not_gone() -> None:
    found = compare_catalogs(known("a.py::t", broken={"b.py": "ImportError"}), known("a.py::t", "b.py::u"))
    assert found.vanished == ()
    assert found.untold == 1
    assert found.uncollected_here == {"b.py": "ImportError"}
    other = compare_catalogs(known("b.py::u"), known(broken={"b.py": "ImportError"}))
    assert (other.appeared, other.uncollected_there) == ((), {"b.py": "ImportError"})


def test_tests_of_files_that_nobody_looked_at_are_not_gone_where_files_were_named() -> None:
    whole = known("a.py::t", "b.py::u")
    assert compare_catalogs(known("a.py::t"), whole).vanished == ("b.py::u",)
    part = compare_catalogs(known("a.py::t", partial=True), whole)
    assert (part.vanished, part.untold) == ((), 1)
    # Of a file that was looked at, it is known all the same.
    assert compare_catalogs(known("a.py::t", partial=True), known("a.py::t", "a.py::v")).vanished == (
        "a.py::v",
    )


@given(now=st.frozensets(names), base=st.frozensets(names))
def test_every_test_of_one_catalog_alone_is_told_once(now: frozenset[str], base: frozenset[str]) -> None:
    found = compare_catalogs(known(*now, *(f"{file}::x" for file in FILES)), known(*base))
    came = now - base | {f"{file}::x" for file in FILES}
    assert set(found.appeared) | set(found.moved) == came
    assert not set(found.appeared) & set(found.moved)
    assert set(found.vanished) | set(found.moved.values()) == base - now
    assert len(found.vanished) + len(found.moved) == len(base - now)
    assert found.untold == 0
    for new, old in found.moved.items():
        assert new != old
        assert new.partition("[")[0].rpartition("::")[2] == old.partition("[")[0].rpartition("::")[2]


@given(now=st.frozensets(names), base=st.frozensets(names))
def test_the_other_way_round_it_is_the_same(now: frozenset[str], base: frozenset[str]) -> None:
    there, back = (
        compare_catalogs(known(*now), known(*base)),
        compare_catalogs(known(*base), known(*now)),
    )
    assert set(there.appeared) == set(back.vanished)
    assert there.moved == {old: new for new, old in back.moved.items()}
