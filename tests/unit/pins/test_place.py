"""The one place of a pin: read and replaced, and nothing else of the file touched."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci.config import load_settings
from ci.core.errors import SettingsError
from ci.pins.place import VERSION, read_version, with_version

YAML, TOML = Path("stack.yaml"), Path("pyproject.toml")
KEY = "variants.pinned.version"
VERSIONS = st.from_regex(VERSION, fullmatch=True).filter(str.isascii)
EXAMPLES = Path(__file__).parents[3] / "examples"


def yaml_of(value: str) -> bytes:
    return f"# one\nvariants:\n  main: {{v: x}}\n  pinned:\n    version: {value}\n    other: 2.10\n".encode()


@pytest.mark.parametrize(
    ("value", "version", "after"),
    [
        ("v2.9.0", "v2.10.0", "v2.10.0"),
        ("v2.9.0   # why", "v2.10.0", "v2.10.0   # why"),
        ("'v2.9.0'", "v2.10.0", "'v2.10.0'"),
        ('"v2.9.0" # why', "v2.10.0", '"v2.10.0" # why'),
        ("2.10", "2.10", '"2.10"'),
        ("'2.10'", "2.10", "'2.10'"),
        # What some reader of YAML would take for something else gets quotes.
        *[("v2", version, f'"{version}"') for version in
          ("2.10", "1e5", "0x10", "0o17", "2026-11-23", "yes", "null", "1_000", "20")],
    ],
)  # fmt: skip
def test_only_the_value_changes_and_keeps_its_quotes(value: str, version: str, after: str) -> None:
    made = with_version(YAML, yaml_of(value), KEY, version)
    assert made == yaml_of(after)
    assert yaml.safe_load(made)["variants"]["pinned"]["version"] == read_version(YAML, made, KEY) == version


def test_ends_of_lines_a_byte_order_mark_lists_and_keys_with_dots() -> None:
    content = b"\xef\xbb\xbfa: 1\r\nversion: v1.0.0 # \xc3\xa4\r\nlast: x"
    assert with_version(YAML, content, "version", "v2.0.0") == content.replace(b"v1", b"v2")
    toml = b'a = "1"\r\nversion = "v1" # \xc3\xa4\r\nlast = 1'
    assert with_version(TOML, toml, "version", "v2") == toml.replace(b"v1", b"v2")
    content = b"images: [{tag: v1}, {tag: v1}]\nby.name: {of.it: v3}\n"
    assert with_version(YAML, content, "images.1.tag", "v2.0") == content.replace(b"v1}]", b"v2.0}]")
    assert read_version(YAML, content, "by.name.of.it") == "v3"


@pytest.mark.parametrize(
    ("content", "key", "line", "said"),
    [
        ("a: 1\n", "b", "", "b: there is no such key"),
        ("", "b", "", "b: there is no such key"),
        ("a: {b: v1}\n", "a.b.c", "", "there is no such key"),
        ("a: [v1]\n", "a.1", "", "there is no such key"),
        ("<<: {b: v1}\n", "b", "", "there is no such key"),
        ("a: {b: v1}\n", "a", "", "is not a version"),
        ("a:\n", "a", "", "is not a version"),
        ("x: &v v1\na: *v\n", "a", "", "cannot be changed without changing other values"),
        ("x: &v {b: v1}\na: *v\n", "x.b", "", "cannot be changed without changing other values"),
        ("x: &v {b: v1}\na: *v\n", "a.b", "", "cannot be changed without changing other values"),
        ("a: |\n  v1\n", "a", "", "is not a version on one line"),
        ("a: 'v1\n  v2'\n", "a", "", "is not a version on one line"),
        ("a: quay.io/o/i:v1\n", "a", "", "'quay.io/o/i:v1' is not a version on one line"),
        ('a: "v\\u0031"\n', "a", "", "cannot be changed without changing other values"),
        ("a: v1\nb: [\n", "a", ":3", "cannot be read as YAML"),
        ("--- {a: v1}\n--- {a: v1}\n", "a", ":2", "cannot be read as YAML"),
    ],
)  # fmt: skip
def test_what_is_no_place_of_one_version_is_told(content: str, key: str, line: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        with_version(YAML, content.encode(), key, "v2")
    assert caught.value.where == f"stack.yaml{line}"
    assert said in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ('[t]\nv = "1" # why 1\n', '[t]\nv = "2.10" # why 1\n'),
        ("[t]\nv = '1'\n", "[t]\nv = '2.10'\n"),
        ('t = { v = "1", w = "-" }\n', 't = { v = "2.10", w = "-" }\n'),
        ("t.v = 1.0\n", 't.v = "2.10"\n'),
        ('[t.a]\nx = 1\n[u]\n[t]\nv="1"\n', '[t.a]\nx = 1\n[u]\n[t]\nv="2.10"\n'),
        ('[[t]]\nv = "1"\n[[t]]\nv = "1"\n', '[[t]]\nv = "1"\n[[t]]\nv = "2.10"\n'),
        ('[t]\nw = "1"\n', "t.v: there is no such key"),
        ('t = "1"\n', "t.v: there is no such key"),
        ('[t]\nv = "1"\nv = "2"\n', "cannot be read as TOML"),
        ("[t.v]\n", "is not a version on one line"),
        ('[t]\nv = """1"""\n', "cannot be changed without changing other values"),
        ("[t\n", "cannot be read as TOML"),
    ],
)
def test_toml_keeps_its_quotes_and_everything_else(content: str, after: str) -> None:
    key = "t.1.v" if "[[" in content else "t.v"
    if "\n" in after:
        assert with_version(TOML, content.encode(), key, "2.10") == after.encode()
        return
    with pytest.raises(SettingsError) as caught:
        with_version(TOML, content.encode(), key, "2")
    assert after in caught.value.what


def test_what_is_no_version_or_no_such_file_is_refused() -> None:
    for version in ("", "1\nevil: 2", "a b", "1#", "-1", "a" * 129, "\u0661", "1:2"):
        with pytest.raises(SettingsError, match="is not a version"):
            with_version(YAML, yaml_of("v1"), KEY, version)
    with pytest.raises(SettingsError, match="is neither YAML nor TOML"):
        read_version(Path("pin.json"), b"{}", "a")
    with pytest.raises(SettingsError, match="cannot be read as YAML"):
        read_version(YAML, b"a: \xff\n", "a")


@given(version=VERSIONS, quote=st.sampled_from(["", "'", '"']))
def test_any_version_is_read_back_as_text_and_nothing_else_moves(version: str, quote: str) -> None:
    made = with_version(YAML, yaml_of(f"{quote}v1{quote}"), KEY, version)
    assert read_version(YAML, made, KEY) == version
    assert yaml.safe_load(made)["variants"]["pinned"] == {"version": version, "other": 2.10}
    before, _, after = yaml_of("@").partition(b"@")
    assert made.startswith(before)
    assert made.endswith(after)
    quote = quote or "'"
    toml = with_version(TOML, f"[t]\nv = {quote}v1{quote}\nw = 1\n".encode(), "t.v", version)
    assert tomllib.loads(toml.decode()) == {"t": {"v": version, "w": 1}}


def test_the_pin_of_the_example_stands_in_one_place_which_holds_any_other() -> None:
    settings = load_settings(path=EXAMPLES / "pins-fine-tuning.yaml", environ={}, flags={}, cwd=EXAMPLES)
    pin = settings.model.pins.tracks["fine-tuning"].pin
    assert pin is not None
    content = (EXAMPLES / pin.file).read_bytes()
    for version in ("3.2.0", "4.2.0", "10.0.0rc1"):
        assert with_version(pin.file, content, pin.key, version) == content.replace(
            b"3.1.0", version.encode()
        )
