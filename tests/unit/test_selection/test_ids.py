"""Canonical ids."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.errors import UsageError
from test_selection.ids import canonical_id, encode_file, file_of, parse_id, resolve_clashes

# Characters that carry meaning in an id come up often, the rest of Unicode now and then.
text = st.text(
    st.one_of(st.sampled_from("ab:#[]%,=~ \n\x85\u2028\ud800\udc00"), st.characters()), max_size=12
)
params = st.dictionaries(text, text, max_size=3)
parts = st.tuples(text, text, text, params)


def test_keys_are_sorted_and_absent_parts_left_out() -> None:
    made = canonical_id("test_x.py", "TestX", "test_y", {"op": "add", "k": "v", "dtype": "int64"})
    assert made == "test_x.py::TestX::test_y[dtype=int64,k=v,op=add]"
    assert canonical_id("a/test_x.py", "", "test_y", {}) == "a/test_x.py::test_y"


def test_nested_classes_keep_their_separator() -> None:
    assert canonical_id("f.py", "Outer::Inner", "t", {}) == "f.py::Outer::Inner::t"
    assert parse_id("f.py::Outer::Inner::t") == ("f.py", "Outer::Inner", "t", {})


def test_characters_with_a_meaning_are_percent_encoded() -> None:
    made = canonical_id("f", "", "t", {"k": "%,=[]\n\x7f"})
    assert made == "f::t[k=%25%2C%3D%5B%5D%0A%7F]"
    assert canonical_id("f", "", "t#2", {}) == "f::t%232"


def test_a_long_value_is_cut_and_keeps_a_part_of_its_hash() -> None:
    value = "x" * 81
    digest = hashlib.sha256(value.encode()).hexdigest()[:12]
    assert canonical_id("f", "", "t", {"k": value}) == f"f::t[k={'x' * 80}~{digest}]"
    assert canonical_id("f", "", "t", {"k": "x" * 80}) == f"f::t[k={'x' * 80}]"


def test_cut_values_stay_apart_from_each_other_and_from_their_own_look() -> None:
    first = canonical_id("f", "", "t", {"k": "x" * 80 + "a"})
    second = canonical_id("f", "", "t", {"k": "x" * 80 + "b"})
    look = canonical_id("f", "", "t", {"k": parse_id(first)[3]["k"]})
    assert len({first, second, look}) == 3


@given(parts)
def test_parts_come_back_whole(one: tuple[str, str, str, dict[str, str]]) -> None:
    assert parse_id(canonical_id(*one)) == one


@given(parts)
def test_the_file_alone_comes_back_as_with_all_parts(one: tuple[str, str, str, dict[str, str]]) -> None:
    made = canonical_id(*one)
    assert file_of(made) == parse_id(made)[0]
    assert made.startswith(f"{encode_file(one[0])}::")


@pytest.mark.parametrize("bad", ["", "test_x.py", "%FF::t"])
def test_what_begins_with_no_file_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="is not a test id"):
        file_of(bad)


@given(parts, parts)
def test_different_parts_give_different_ids(
    one: tuple[str, str, str, dict[str, str]], other: tuple[str, str, str, dict[str, str]]
) -> None:
    assert (canonical_id(*one) == canonical_id(*other)) == (one == other)


@given(parts)
def test_an_id_is_one_printable_line(one: tuple[str, str, str, dict[str, str]]) -> None:
    made = canonical_id(*one)
    made.encode()
    assert len(made.splitlines()) <= 1


@pytest.mark.parametrize("bad", ["", "test_x.py", "f::t[k=v", "f::t[k]", "f::t[]", "f::t[k=%FF]"])
def test_what_is_no_id_is_refused_with_its_form(bad: str) -> None:
    with pytest.raises(UsageError, match="is not a test id") as caught:
        parse_id(bad)
    assert repr(bad) in str(caught.value)
    assert "file::Class::template[key=value,…]" in str(caught.value)


def test_clashes_are_numbered_in_source_order_and_reported_once() -> None:
    unique, clashing = resolve_clashes(["a", "b", "a", "a", "c"])
    assert unique == ["a", "b", "a#2", "a#3", "c"]
    assert clashing == ["a"]


def test_a_number_that_is_taken_is_passed_over() -> None:
    assert resolve_clashes(["a", "a", "a#2", "a"])[0] == ["a", "a#3", "a#2", "a#4"]


def test_the_number_of_a_clash_is_no_part_of_the_template() -> None:
    assert parse_id("f::t#2") == ("f", "", "t", {})
    assert parse_id("f::t[k=v]#12") == ("f", "", "t", {"k": "v"})


@given(st.lists(st.sampled_from(["a", "b", "a#2", "b#3"]), max_size=12))
def test_resolved_ids_are_unique_and_resolving_again_changes_nothing(ids: list[str]) -> None:
    unique, _ = resolve_clashes(ids)
    assert len(set(unique)) == len(ids)
    assert resolve_clashes(unique) == (unique, [])


@pytest.mark.parametrize("sign", ["\u202e", "\ufffe", "\u200b", "\ufeff", "\ufdd0", "\ud800", "\x00", "\n"])
def test_what_no_name_shows_as_it_is_stands_as_its_number(sign: str) -> None:
    name = canonical_id(f"a{sign}.py", f"A{sign}", f"t{sign}", {"k": sign})
    assert sign not in name
    assert parse_id(name) == (f"a{sign}.py", f"A{sign}", f"t{sign}", {"k": sign})
