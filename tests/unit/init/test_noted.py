"""What was written last: kept as it was, and refused where it is something else."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError
from ci.init.noted import MOST_BYTES, Notes, parse, to_text

WHERE = Path("notes.json")
NAMES = st.from_regex(r"[a-z]{1,9}(/[a-z.]{1,9}x)?", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(NAMES, TEXTS), st.dictionaries(NAMES, TEXTS), TEXTS)
def test_notes_are_read_as_they_were_written(
    texts: dict[str, str], asked: dict[str, str], toolkit: str
) -> None:
    notes = Notes(toolkit=toolkit, asked=asked, texts=texts)
    assert parse(to_text(notes), WHERE) == notes
    assert to_text(parse(to_text(notes), WHERE)) == to_text(notes)


def written(**changes: Any) -> str:
    return json.dumps(json.loads(to_text(Notes(texts={"a": "b"}))) | changes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<<<<<<< HEAD\n", "cannot be read as JSON"),
        ("[]", "schema is None"),
        ('{"schema": "spyre-ci/init-notes/2"}', "schema is 'spyre-ci/init-notes/2'"),
        (written(files=[]), "files is no table"),
        (written(asked={"device": 3}), "asked holds 3"),
        (written(toolkit=None), "toolkit holds None"),
        (written(files={"a": "zz"}), "files.'a' cannot be unpacked"),
        (written(files={"a": zlib.compress(b"abc").hex()[:-8]}), "cut short or too large"),
        (written(files={"a": zlib.compress(b"a" * (MOST_BYTES + 1)).hex()}), "cut short or too large"),
        (written(files={"a": zlib.compress(b"\xff").hex()}), "cannot be unpacked"),
        *(
            (written(files={name: ""}), "no path in the checkout")
            for name in ("", "../a", "/etc/passwd", "a/../../b", "a\\b", "a\nb")
        ),
    ],
)
def test_what_is_no_notes_is_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(BadFileError, match=said) as caught:
        parse(text, WHERE)
    assert "take it back from Git" in str(caught.value)
    assert caught.value.where == "notes.json"
