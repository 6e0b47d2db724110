from __future__ import annotations

import pytest

from ci.jenkins.builds import file_path, item_in
from tests.jenkins_tree import narrowed


@pytest.mark.parametrize(
    ("where", "item"),
    [
        ("https://j.example.com/queue/item/12/", 12),
        ("https://j.example.com/jenkins/queue/item/7", 7),
        ("https://j.example.com/job/x/", None),
        ("https://j.example.com/queue/item/abc/", None),
        ("https://j.example.com/queue/item/12/../../x", None),
        ("", None),
    ],
)
def test_a_start_is_known_by_its_number_in_the_queue(where: str, item: int | None) -> None:
    assert item_in(where) == item


def test_a_file_is_below_its_build_however_it_is_called() -> None:
    assert (
        file_path("spyre/nightly", 3, "a b/../#.json")
        == "/job/spyre/job/nightly/3/artifact/a%20b/../%23.json"
    )


def test_the_stand_in_narrows_answers_as_jenkins_does() -> None:
    content = {"a": 1, "b": [{"c": 1, "d": {"e": 2, "f": 3}}, {}, {"c": 3}], "g": 4}
    assert narrowed(content, "a,b[c,d[e]]{0,2}") == {"a": 1, "b": [{"c": 1, "d": {"e": 2}}, {}]}
    with pytest.raises(AssertionError, match="no tree of Jenkins"):
        narrowed(content, "a;b")
