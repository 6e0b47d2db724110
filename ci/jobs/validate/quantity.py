"""Quantities as Kubernetes writes them (`500m`, `16Gi`, `1e3`), exactly.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal

_FORM = re.compile(
    r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([eE][+-]?[0-9]{1,3})|(n|u|m|k|[MGTPE]|[KMGTPE]i))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = "KMGTPE"


def quantity(text: object) -> Decimal:
    """The number a quantity is; 0 for what is none, for an API server writes none that is not."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        return Decimal(0)
    number, exponent, suffix = found.groups()
    if exponent:
        return Decimal(number + exponent)
    if not suffix:
        return Decimal(number)
    if suffix.endswith("i"):
        return Decimal(number) * Decimal(1024 ** (_BINARY.index(suffix[0]) + 1))
    return Decimal(number).scaleb(_DECIMAL[suffix])


def whole(text: object) -> int:
    """A quantity of things that are counted, such as cards."""
    return int(quantity(text))


def written(value: Decimal) -> str:
    """A number as people write it."""
    return f"{value.normalize():f}"
