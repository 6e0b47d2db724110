"""Saying what is wrong with a checked file: place, value seen, and what the key is for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ci.config.renamed import successor
from ci.core.addresses import without_secrets
from ci.core.errors import SettingsError
from test_selection.errors import did_you_mean
from test_selection.yaml_reader import Document

ENV_PREFIX = "SPYRE_CI__"


def explain(
    error: ValidationError,
    document: Document,
    model: type[BaseModel],
    *,
    origins: Mapping[str, str] | None = None,
    see: str,
) -> SettingsError:
    """The first few mistakes of a validation, each with its place, the value seen and a remedy.

    Args:
        error: what pydantic says.
        document: the file the values are from.
        model: that they were checked against.
        origins: dotted key to where its value came from; what is not in it is the file's.
        see: the remedy where nothing better is known.
    """
    shown = [_place(detail, document, model, origins or {}, see) for detail in error.errors()[:5]]
    (what, where, remedy), others = shown[0], shown[1:]
    also = "".join(f"\n  also: {place}: {text}" for text, place, _ in others)
    return SettingsError(what + also, where=where, remedy=remedy)


def variable_of(key: str) -> str:
    """The environment's variable of a setting.

    Args:
        key: dotted, such as `run.cards`.
    """
    return f"{ENV_PREFIX}{key.upper().replace('.', '__')}"


def remedy_of(location: Sequence[str], model: type[BaseModel], *, see: str) -> str:
    """What a key is for, as its model describes it; else `see`."""
    below = _model_at(location[:-1], model) if location else None
    field = below.model_fields.get(location[-1]) if below else None
    if field is not None and field.description:
        return f"{location[-1]} is: {field.description}"
    return see


def _place(
    detail: ErrorDetails, document: Document, model: type[BaseModel], origins: Mapping[str, str], see: str
) -> tuple[str, str, str]:
    location = [str(part) for part in detail["loc"] if part != "[key]"]
    key = ".".join(location)
    origin = next((source for name, source in origins.items() if (name + ".").startswith(key + ".")), "file")
    where = {
        "environment": f"{variable_of(key)} (environment)",
        "flag": f"{key} (flag)",
    }.get(origin) or document.place(location)
    if detail["type"] == "extra_forbidden":
        if (now := successor(key)) is not None:
            return f"key {key!r} was removed; instead: {now}", where, "see docs/renamed.md"
        below = _model_at(location[:-1], model)
        known = list(below.model_fields) if below else []
        guess = did_you_mean(location[-1], known, "", cutoff=0.5)
        return f"unknown key {key!r}{guess and f', {guess}'}", where, f"known keys here: {', '.join(known)}"
    said = detail["msg"].removeprefix("Value error, ")
    if not location:  # of the settings as a whole, which nobody wants to see again
        return said, where, remedy_of(location, model, see=see)
    return f"{key}: {said} (seen: {_seen(detail['input'])})", where, remedy_of(location, model, see=see)


def _seen(value: object) -> str:
    try:
        return without_secrets(json.dumps(value, default=str))[:200]
    except ValueError:  # Python writes no number of so many digits
        return "a number of thousands of digits"


def _model_at(location: Sequence[str], root: type[BaseModel]) -> type[BaseModel] | None:
    model: type[BaseModel] | None = root
    for part in location:
        if model is None or part not in model.model_fields:
            # A table by number or name, such as `stages.1`: its rows share one model, already found.
            continue
        model = next(_models_in(model.model_fields[part].annotation), None)
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inside in get_args(annotation):
        yield from _models_in(inside)
