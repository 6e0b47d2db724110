"""torch's dtypes by the names catalogs have, and torch's other names for them."""

from __future__ import annotations

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
