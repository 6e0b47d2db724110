"""Whatever stands in a suite file, it loads or is refused with its place; nothing ends in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.errors import SettingsError
from test_selection.suite_decide import Decider
from test_selection.suite_edit import SuiteText
from test_selection.suite_model import Suite
from test_selection.suite_read import parse_suite

PATH = Path("s.yaml")
KEYS = [
    *(
        "test_suite_config",
        "files",
        "global",
        "labels",
        "path",
        "unlisted_test_mode",
        "tests",
        "names",
        "mode",
    ),
    *(
        "tags",
        "no_grad",
        "edits",
        "selectors",
        "ops",
        "dtypes",
        "modules",
        "functions",
        "cpu_move",
        "include",
    ),
    *("exclude", "name", "description", "precision", "atol", "rtol", "force_xfail", "supported_dtypes"),
    *("supported_ops", "supported_modules", "input_config", "seed", "devices", "has_ops", "name_patterns"),
]
ODD_TEXTS = [
    "xfail",
    "test_x.py",
    "TestX::test_y",
    "${TORCH_ROOT}/test/.*py",
    "*::(",
    "a{9999999999}",
    "float16",
]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(ODD_TEXTS),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4),
    ),
    max_leaves=12,
)
TEST = CatalogTest(
    id="test_x.py::TestX::test_y", node="t::TestX::test_y", file="test_x.py", cls="TestX", template="test_y"
)


def taken(text: str) -> Suite | None:
    """The suite, or None where it was refused as it should be."""
    refused: SettingsError | None = None
    try:
        suite = parse_suite(PATH, text)
    except SettingsError as error:
        refused = error
    if refused is not None:
        assert str(refused.where).startswith("s.yaml")
        assert refused.remedy
        return None
    Decider(suite).narrow([TEST])
    SuiteText(PATH, text)
    return suite


@given(VALUES)
def test_any_content_loads_or_is_refused(content: object) -> None:
    taken(yaml.safe_dump(content, allow_unicode=True))


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5), st.booleans())
def test_any_entry_loads_or_is_refused(content: dict[str, object], deep: bool) -> None:
    file: dict[str, object] = {"path": "test_x.py", "tests": [{"names": ["test_y"], **content}]}
    body = {"files": [file], "global": content} if deep else {"files": [file]}
    taken(yaml.safe_dump({"test_suite_config": body}))


@given(st.text(alphabet=st.sampled_from("{}[]:,-&*!|>'\"#%@`? \n\tab1<~.\\"), max_size=60))
def test_any_text_loads_or_is_refused(text: str) -> None:
    taken(text)
    taken(f"test_suite_config:\n  files:\n    - path: {text}\n")


STRANGE = [
    *("!!bool maybe", "!!int x", "!!float y", "!!timestamp z", "2001-99-99", "!!python/object:os.system {}"),
    *("&a [*a]", "a: &a {b: *a}", "<<: 3", "? [1]\n: 2", "? {a: b}\n: 2", "---\na: 1\n---\nb: 2", "\x00"),
    *("[" * 3000, "- " * 500 + "x", "a: &x [&y [1], *y]\nb: {<<: *x}", "0x", "!!binary €", "=: 1"),
    *("1" * 5000, "\ufeffa: b", "test_suite_config: {files: [{path: 'test_[z-a]{99}'}]}"),
]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_yaml_is_refused(text: str) -> None:
    assert taken(text) is None


def test_aliases_of_aliases_do_not_take_the_machine() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 12)]
    with pytest.raises(SettingsError, match="aliases counted each time"):
        parse_suite(PATH, "\n".join(rows))
