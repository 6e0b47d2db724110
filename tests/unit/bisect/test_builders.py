"""What builders are told, and the settings that say it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ci.bisect.builders import BUILDERS, Plan, words_of
from ci.config.bisect_model import Bisect


def test_values_are_put_into_words_and_nowhere_else() -> None:
    values = {"tree": "/t {out}", "out": "/o"}
    command = ["a", "--tree={tree}", "{out}/{tree}", "{other}", "${HOME}", "{{out}}"]
    assert words_of(command, values) == ["a", "--tree=/t {out}", "/o//t {out}", "{other}", "${HOME}", "{/o}"]


@given(st.lists(st.text()), st.text(), st.text())
def test_a_command_has_as_many_words_as_before(command: list[str], tree: str, out: str) -> None:
    made = words_of(command, {"tree": tree, "out": out})
    assert len(made) == len(command)
    assert all(was == now for was, now in zip(command, made, strict=True) if "{" not in was)


def test_every_builder_of_the_settings_is_there() -> None:
    named = Bisect.model_fields["builder"].annotation.__args__  # type: ignore[union-attr]  # a Literal
    assert set(named) == set(BUILDERS)


def test_a_checkout_needs_no_build(tmp_path: Path) -> None:
    plan = Plan(command=[], cache=tmp_path, keep=1, image="i", environ={}, timeout_s=1, stop=lambda: False)
    made = BUILDERS["checkout"](plan).build("a" * 40, tmp_path)
    assert (made.tree, made.image, made.cached) == (tmp_path, "", True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"builder": "wheel"}, "needs a `command`"), ({"builder": "image"}, "needs a `command`"),
        ({"confidence": 1}, "less than or equal to 0.9999"), ({"confidence": 0.3}, "greater than"),
        ({"workers": 0}, "greater than"), ({"image": "Up:Case"}, "pattern"),
        ({"command": ["a\0b"]}, "pattern"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Bisect.model_validate(wrong)
