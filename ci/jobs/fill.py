"""Templates of manifests, filled with data, and manifests as YAML."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def fill(template: str, **values: Any) -> dict[str, Any]:
    """A manifest, or part of one, of a template and what goes in; no value gets out of its place.

    Args:
        template: name, without its ending.
        **values: what JSON knows, and objects whose attributes are.
    """
    text = _environment().get_template(f"{template}.yaml.j2").render(values)
    filled: dict[str, Any] = yaml.load(text, Loader=_LOADER)  # noqa: S506  # the safe one
    return filled


def quoted(value: Any) -> str:
    """A value as JSON, which is YAML too: one line of ASCII, whatever it holds.

    JSON's own escapes would not do: half a pair of surrogates is a letter to YAML, and it folds lines where
    Unicode breaks them.
    """
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", text)


def to_yaml(manifests: list[dict[str, Any]]) -> str:
    """Manifests as YAML documents, as `kubectl apply` reads them."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=110)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ci.jobs"),
        undefined=StrictUndefined,
        # Every value that a template prints, so that none can be forgotten.
        finalize=quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # not for a page
    )


# Many times as fast where libyaml is there, for ConfigMaps of some megabytes.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc,valid-type]  # whichever is there
    """Texts quoted but for plain words, lines as lines, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the method it stands for
        return True


# `1e3` is a text to YAML 1.1 as it is read here, and a number to others; `y` is true to some.
_WORD = re.compile(r"[A-Za-z][-A-Za-z0-9_./]+")


def _represent(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None if _WORD.fullmatch(value) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent)
