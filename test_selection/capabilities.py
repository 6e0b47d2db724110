"""What a device declares it can do: the operators and dtypes of which tests can be expected to run."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

DTYPES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
    "int1", "int2", "int3", "int4", "int5", "int6", "int7",
    "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn_x2", "complex32", "complex64", "complex128",
    "quint8", "qint8", "qint32", "quint4x2", "quint2x4",
    "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16",
)  # fmt: skip
# `torch.half` is `torch.float16`.
ALIASES = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32",
    "long": "int64", "chalf": "complex32", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


def dtype_name(written: str) -> str:
    """A dtype by the name catalogs have: `torch.half` is `float16`."""
    bare = written.removeprefix("torch.")
    return ALIASES.get(bare, bare)


# What people write and torch does not know.
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}

_KNOWN = frozenset(DTYPES)
KINDS = ("op", "dtype")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a device declares.

    Attributes:
        ops: names of OpInfos; a name without its variant (`max`) stands for all of them (`max.binary`),
            and for the reference PyTorch keeps of it (`_refs.max`). Empty: all ops.
        dtypes: names of dtypes without `torch.`. Empty: all dtypes.
    """

    ops: frozenset[str] = field(default_factory=frozenset)
    dtypes: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """Matches an op, or a dtype, that a device does not declare."""

    kind: str
    capabilities: Capabilities = field(default_factory=Capabilities)

    def search(self, string: str, /) -> bool | None:
        """True where the device does not declare it; None where it does, or declares nothing at all."""
        ops, dtypes = self.capabilities.ops, self.capabilities.dtypes
        if self.kind == "op":
            # Tests of modules (`nn.Linear`) carry the module's name where others carry the operator's; a list
            # of operators says nothing of them.
            module = string.startswith(("nn.", "ao.")) and not string.startswith("nn.functional.")
            return (bool(ops) and not module and not declared_names(string) & ops) or None
        # A test of several dtypes (`float16+int64`) needs each of them.
        return (
            bool(dtypes) and any(one in _KNOWN and one not in dtypes for one in string.split("+"))
        ) or None


def declared(ops: Iterable[str], dtypes: Iterable[str]) -> Capabilities:
    """The capabilities of a device.

    Raises:
        ValueError: a dtype torch does not have; the message suggests one.
    """
    return Capabilities(ops=frozenset(ops), dtypes=frozenset(known_dtype(one) for one in dtypes))


def known_dtype(name: str) -> str:
    """A dtype's name, unchanged.

    Raises:
        ValueError: torch has no such dtype; the message suggests one.
    """
    if name in _KNOWN:
        return name
    bare = dtype_name(name)
    meant = _SHORT.get(bare, bare)
    close = [meant] if meant in _KNOWN else difflib.get_close_matches(bare, (*DTYPES, *ALIASES, *_SHORT), n=1)
    hint = f", did you mean {_SHORT.get(close[0], dtype_name(close[0]))!r}?" if close else ""
    raise ValueError(f"there is no dtype {name!r}{hint}")


def declared_names(op: str) -> set[str]:
    """The names by which a device may declare the op of a test."""
    bare = op.removeprefix("_refs.").removeprefix("_conversions.")
    return {op, bare, bare.rpartition(".")[0]}
