r"""Reading JSON that holds half a character: what tests print and are called need not be whole text. Pure.

JSON's `\ud800` without its second half is no character. Python writes it and reads it, where a message had
bytes that are no UTF-8; msgspec refuses the whole document for it.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

Kind = TypeVar("Kind")
_ESCAPE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"  # a whole pair
    rb"|\\(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|\\."
)


def decode_line(data: bytes, decoder: msgspec.json.Decoder[Kind]) -> Kind:
    """One document, decoded; a half of a character is read as the text of its escape.

    Args:
        data: JSON.
        decoder: of the kind that is wanted.

    Raises:
        msgspec.MsgspecError: it is no JSON, or of another kind.
        UnicodeDecodeError: it is no UTF-8.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        whole = _ESCAPE.sub(_readable, data)
        if whole == data:
            raise
        return decoder.decode(whole)


def _readable(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] is None else rb"\\" + found[2]
