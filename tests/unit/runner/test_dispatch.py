from __future__ import annotations

from ci.runner.dispatch import without
from test_selection.steal import Piece


def test_what_ended_leaves_its_piece_and_empty_pieces_go() -> None:
    pieces = [Piece(file="a", ids=("1", "2"), expected_s=4), Piece(file="b", ids=("3",), expected_s=1)]
    assert without(pieces, {"1", "3"}) == [Piece(file="a", ids=("2",), expected_s=2)]
    assert without(pieces, set()) == pieces
    assert without(pieces, {"1", "2", "3"}) == []
