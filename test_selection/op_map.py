"""The op map: which operators each test called, by overload and dtype; and its file, `opmap.json.gz`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from test_selection.errors import BadFileError
from test_selection.files import convert, read_json, write_json

KIND = "opmap"
FILE = "opmap.json.gz"
_REMEDY = "export it again with `spyre-ci history export --op-map`"
_NAMESPACE = "aten::"
_IN_PLACE = re.compile(r"(?<=[a-z0-9])_$")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpMap:
    """What each test called.

    Attributes:
        pytorch: version of the torch that was traced.
        device: that the tests ran on.
        ops: what was called, each once: `aten::add.Tensor float32`, an overload and a dtype; or
            `torch/functional.py:norm`, a Python function of torch and its file.
        sets: by test, places in `ops`; tests that called the same share one.
        of: by test id, the place of its set.
    """

    pytorch: str
    device: str
    ops: list[str] = field(default_factory=list)
    sets: list[list[Annotated[int, msgspec.Meta(ge=0)]]] = field(default_factory=list)
    of: Mapping[str, Annotated[int, msgspec.Meta(ge=0)]] = field(default_factory=dict)

    def calls(self, place: int) -> list[str]:
        """What a set contains."""
        return [self.ops[number] for number in self.sets[place]]


def make_op_map(traces: Mapping[str, Collection[str]], *, pytorch: str, device: str) -> OpMap:
    """Put the calls of each test into a map; the order of `traces` does not matter.

    Args:
        traces: by test id, what it called.
        pytorch: version of torch.
        device: that the tests ran on.
    """
    ops = sorted(set().union(*traces.values()))
    place = {op: number for number, op in enumerate(ops)}
    sets: dict[tuple[int, ...], int] = {}
    of = {
        name: sets.setdefault(tuple(sorted(place[op] for op in set(traces[name]))), len(sets))
        for name in sorted(traces)
    }
    return OpMap(pytorch=pytorch, device=device, ops=ops, sets=[list(one) for one in sets], of=of)


def write_op_map(path: Path, content: OpMap) -> None:
    """Write `opmap.json`, compressed where the name ends in `.gz`."""
    write_json(path, KIND, msgspec.to_builtins(content))


def read_op_map(path: Path) -> OpMap:
    """Read `opmap.json[.gz]`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind, or a place lies outside its list.
    """
    found = convert(read_json(path, KIND), OpMap, where=path, remedy=_REMEDY)
    for key, places, size in (
        ("of", found.of.values(), len(found.sets)),
        ("sets", (one for row in found.sets for one in row), len(found.ops)),
    ):
        if (most := max(places, default=-1)) >= size:
            raise BadFileError(f"{key} names place {most}, and there are {size}", where=path, remedy=_REMEDY)
    return found


def family(op: str) -> str:
    """The op that an overload, an in-place form or a traced call belongs to: `aten::add_.Tensor int8` is add.

    An op of another library keeps its namespace: `quantized::add`.
    """
    name = op.partition(" ")[0].removeprefix(_NAMESPACE)
    return _IN_PLACE.sub("", name.partition(".")[0])


def is_function(call: str) -> bool:
    """True if a traced call is a Python function of torch, not an operator."""
    return ".py:" in call
