"""The one place of a pin: read and replaced, and nothing else of the file touched."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
import tomlkit
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import CommandError, SettingsError
from ci.pins.place import VERSION, read_version, with_version

YAML, TOML = Path("stack.yaml"), Path("pyproject.toml")
KEY = "variants.pinned.version"
VERSIONS = st.from_regex(VERSION, fullmatch=True).filter(str.isascii)


def yaml_of(value: str) -> bytes:
    return f"# one\nvariants:\n  main: {{v: x}}\n  pinned:\n    version: {value}\n    other: 2.10\n".encode()


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ("v2.9.0", "v2.10.0"),
        ("v2.9.0   # why", "v2.10.0   # why"),
        ("'v2.9.0'", "'v2.10.0'"),
        ('"v2.9.0" # why', '"v2.10.0" # why'),
    ],
)
def test_only_the_value_changes_and_keeps_its_quotes(value: str, after: str) -> None:
    assert with_version(YAML, yaml_of(value), KEY, "v2.10.0") == yaml_of(after)


@pytest.mark.parametrize(
    "version", ["2.10", "1e5", "0x10", "0o17", "2026-11-23", "yes", "null", "1_000", "20"]
)
def test_a_version_that_yaml_would_read_as_something_else_gets_quotes(version: str) -> None:
    made = with_version(YAML, yaml_of("v2.9.0"), KEY, version)
    assert made == yaml_of(f'"{version}"')
    assert yaml.safe_load(made)["variants"]["pinned"]["version"] == version


def test_a_number_is_read_in_its_own_digits() -> None:
    assert read_version(YAML, yaml_of("2.10"), KEY) == "2.10"
    assert read_version(TOML, b"[tool]\npin = 2.10\n", "tool.pin") == "2.10"


def test_a_number_that_is_to_stay_is_written_as_text() -> None:
    assert with_version(YAML, yaml_of("2.10"), KEY, "2.10") == yaml_of('"2.10"')


@pytest.mark.parametrize("value", ["v2", "'v2'", '"v2"'])
def test_the_version_that_stands_there_changes_no_byte(value: str) -> None:
    assert with_version(YAML, yaml_of(value), KEY, "v2") == yaml_of(value)


def test_ends_of_lines_and_a_byte_order_mark_stay() -> None:
    content = b"\xef\xbb\xbfa: 1\r\nversion: v1 # \xc3\xa4\r\nlast: x"
    assert with_version(YAML, content, "version", "v2") == content.replace(b"v1", b"v2")
    toml = b'a = "1"\r\nversion = "v1" # \xc3\xa4\r\nlast = 1'
    assert with_version(TOML, toml, "version", "v2") == toml.replace(b"v1", b"v2")


def test_an_item_of_a_list_and_a_key_with_dots_are_found() -> None:
    content = b"images: [{tag: v1}, {tag: v1}]\nby.name: {of.it: v3}\n"
    assert with_version(YAML, content, "images.1.tag", "v2") == content.replace(b"v1}]", b"v2}]")
    assert read_version(YAML, content, "by.name.of.it") == "v3"


@pytest.mark.parametrize(
    ("content", "key", "line", "said"),
    [
        ("a: 1\n", "b", "", "b: there is no such key"),
        ("", "b", "", "b: there is no such key"),
        ("a: {b: v1}\n", "a.b.c", "", "there is no such key"),
        ("a: [v1]\n", "a.1", "", "there is no such key"),
        ("<<: {b: v1}\n", "b", "", "there is no such key"),
        ("a:\n  b: v1\n  b: v2\n", "a.b", ":3", "a.b stands twice, first on line 2"),
        ("a: {b: v1}\nc: 1\na: {b: v1}\n", "a.b", ":3", "a.b stands twice, first on line 1"),
        ("a.b: v1\na: {b: v1}\n", "a.b", ":2", "a.b stands twice"),
        ("a: {b: v1}\n", "a", ":1", "a is no text"),
        ("a: [v1]\n", "a", ":1", "a is no text"),
        ("a:\n", "a", ":1", "a is no text"),
        ("a: yes\n", "a", ":1", "a is no text"),
        ("a: 2026-11-23\n", "a", ":1", "a is no text"),
        ("x: 1\na: &v v1\n", "a", ":2", "is an anchor or an alias"),
        ("x: &v v1\na: *v\n", "a", ":1", "is an anchor or an alias"),
        ("x: &v {b: v1}\na: *v\n", "x.b", ":1", "is an anchor or an alias"),
        ("x: &v {b: v1}\na: *v\n", "a.b", ":1", "is an anchor or an alias"),
        ("x: &v {b: v1}\na:\n  <<: *v\n", "x.b", ":1", "is an anchor or an alias"),
        ("a: !!str v1\n", "a", ":1", "!!str v1 is no version on one line"),
        ("a: |\n  v1\n", "a", ":1", "is no version on one line"),
        ("a: 'v1\n  v2'\n", "a", ":1", "is no version on one line"),
        ("a: quay.io/o/i:v1\n", "a", ":1", "quay.io/o/i:v1 is no version on one line"),
        ('a: "v\\u0031"\n', "a", ":1", "is no version on one line"),
        ("a: v1\nb: [\n", "a", ":3", "is not YAML"),
        ("--- {a: v1}\n--- {a: v1}\n", "a", ":2", "is not YAML"),
    ],
)  # fmt: skip
def test_what_is_no_place_of_one_version_is_told_with_its_line(
    content: str, key: str, line: str, said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        with_version(YAML, content.encode(), key, "v2")
    assert caught.value.where == f"stack.yaml{line}"
    assert said in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ('[t]\nv = "1" # why\n', '[t]\nv = "2.10" # why\n'),
        ("[t]\nv = '1'\n", "[t]\nv = '2.10'\n"),
        ('t.v = "1"\n', 't.v = "2.10"\n'),
        ('t = { v = "1", w = "-" }\n', 't = { v = "2.10", w = "-" }\n'),
        ("t.v = 1.0\n", 't.v = "2.10"\n'),
        ('[t.a]\nx = 1\n[u]\n[t]\nv="1"\n', '[t.a]\nx = 1\n[u]\n[t]\nv="2.10"\n'),
    ],
)
def test_toml_keeps_its_quotes_and_everything_else(content: str, after: str) -> None:
    assert with_version(TOML, content.encode(), "t.v", "2.10") == after.encode()


def test_an_item_of_a_list_of_toml_is_found() -> None:
    content = b'[[p]]\nv = "1"\n[[p]]\nv = "1"\nl = ["1", "1"]\n'
    made = with_version(TOML, with_version(TOML, content, "p.1.v", "2"), "p.1.l.1", "3")
    assert made == b'[[p]]\nv = "1"\n[[p]]\nv = "2"\nl = ["1", "3"]\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[t]\nw = "1"\n', "t.v: there is no such key"),
        ('t = "1"\n', "t.v: there is no such key"),
        ('t = ["1"]\n', "t.v: there is no such key"),
        ('[t]\nv = "1"\nv = "2"\n', "is not TOML"),
        ("[t]\nv = true\n", "t.v is no text"),
        ("[t.v]\n", "t.v is no text"),
        ('[t]\nv = """1"""\n', "is no version on one line"),
        ("[t\n", "is not TOML"),
    ],
)
def test_toml_that_is_no_place_of_one_version_is_told(content: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        with_version(TOML, content.encode(), "t.v", "2")
    assert str(caught.value.where).startswith("pyproject.toml")
    assert said in caught.value.what


@pytest.mark.parametrize("version", ["", "1\nevil: 2", "a b", "1#", "-1", "a" * 129, "\u0661", "1:2"])
def test_what_is_no_version_is_not_written(version: str) -> None:
    with pytest.raises(SettingsError, match="is no version"):
        with_version(YAML, yaml_of("v1"), KEY, version)


def test_a_file_of_another_kind_and_one_that_is_no_text_are_refused() -> None:
    with pytest.raises(SettingsError, match="is neither YAML nor TOML"):
        read_version(Path("pin.json"), b"{}", "a")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        read_version(YAML, b"a: \xff\n", "a")


@given(version=VERSIONS, quote=st.sampled_from(["", "'", '"']))
def test_any_version_is_read_back_as_text_and_nothing_else_moves(version: str, quote: str) -> None:
    made = with_version(YAML, yaml_of(f"{quote}v1{quote}"), KEY, version)
    assert read_version(YAML, made, KEY) == version
    content = yaml.safe_load(made)
    assert content["variants"]["pinned"] == {"version": version, "other": 2.10}
    before, _, after = yaml_of("@").partition(b"@")
    assert made.startswith(before)
    assert made.endswith(after)
    quote = quote or "'"
    toml = with_version(TOML, f"[t]\nv = {quote}v1{quote}\nw = 1\n".encode(), "t.v", version)
    assert tomllib.loads(toml.decode()) == {"t": {"v": version, "w": 1}}


def test_a_value_that_cannot_be_changed_alone_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = tomlkit.dumps
    monkeypatch.setattr(tomlkit, "dumps", lambda document: dumps(document).replace("why", "WHY"))
    with pytest.raises(SettingsError, match="cannot be changed without changing more"):
        with_version(TOML, b'v = "1" # why\n', "v", "2")


def test_toml_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    monkeypatch.delitem(sys.modules, "ci.pins.toml_place", raising=False)
    monkeypatch.delattr("ci.pins.toml_place", raising=False)
    with pytest.raises(CommandError, match="a pin in TOML wants a library") as caught:
        read_version(TOML, b'v = "1"', "v")
    assert caught.value.remedy == "install it: pip install 'spyre-ci[pins]'"
    assert read_version(YAML, b"v: 1", "v") == "1"
