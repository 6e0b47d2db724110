"""A process of ours imports nothing from the folder it is called in; a child answers each order."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci.runner.channel import Answer, Lines, Order
from ci.runner.child import HOME, Pipes, module_words


def test_the_folder_it_is_called_in_is_no_place_of_packages(tmp_path: Path) -> None:
    assert module_words("a.b", here=tmp_path) == [sys.executable, "-P", "-m", "a.b"]


def test_where_our_packages_are_nothing_else_may_say_so() -> None:
    assert module_words("a.b", here=HOME) == [sys.executable, "-m", "a.b"]
    assert (HOME / "ci" / "runner" / "child.py").is_file()


def test_a_folder_that_was_removed_is_no_place_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert module_words("a.b") == [sys.executable, "-P", "-m", "a.b"]


def test_a_child_has_answered_once_it_said_ready_and_done_whatever_else_came_over_its_pipe() -> None:
    pipes = Pipes()
    orders, answers = pipes.theirs
    order = Order(do="run", file="a.py", ids=("a",))
    pipes.order(order)
    assert [Order.read(line) for line in Lines(orders).read()] == [order]
    for said in (Answer(what="ready").line(), b"half a line", b"\n" + Answer(what="done").line()):
        assert not pipes.answered
        os.write(answers, said)
        pipes.listen(0)
    assert (pipes.answered, pipes.refused) == (True, False)
    os.write(answers, Answer(what="refused").line())
    pipes.started()
    pipes.listen(0)
    assert pipes.refused
    pipes.close()
