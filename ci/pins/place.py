"""The one place of a pin: the version in a YAML or TOML file, read and replaced; pure.

Only the value's own characters change; comments, ends of lines and everything else stay byte for byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ci.core.errors import SettingsError
from ci.core.extras import wanted
from ci.core.text import escaped

# What indexes and registries call a release; nothing in it means anything to YAML, TOML, Git or a shell.
VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!-]{0,127}")
_STR, _NUMBERS = "tag:yaml.org,2002:str", ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int")
_YAML, _TOML = {".yaml", ".yml"}, {".toml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A version in a text.

    Attributes:
        version: as it stands there; a number in its own digits, so that 2.10 is not 2.1.
        start: of its characters, with quotes.
        end: behind them.
        quote: the kind of quotes; empty where there are none.
    """

    version: str
    start: int
    end: int
    quote: str


def read_version(path: Path, content: bytes, key: str) -> str:
    """The version that stands at a key.

    Args:
        path: of the file, by whose name it is YAML or TOML, and which errors name.
        content: of it.
        key: dotted; a number is an item of a list.

    Raises:
        SettingsError: it is no YAML or TOML, or there is not exactly one version of its own at the key.
    """
    return _found(path, _text(path, content), key).version


def with_version(path: Path, content: bytes, key: str, version: str) -> bytes:
    """The content with another version at a key.

    Args:
        path: as for `read_version`.
        content: of it.
        key: dotted.
        version: that is to stand there.

    Raises:
        SettingsError: see `read_version`; or the version is none.
    """
    if not VERSION.fullmatch(version):
        raise SettingsError(
            f"{escaped(version)[:200]!r} is no version", where=path, remedy="name a release of the ledger"
        )
    text = _text(path, content)
    found = _found(path, text, key)
    if found.version == version and (found.quote or not _else_than_text(version)):
        return content
    plain = not found.quote and path.suffix not in _TOML and not _else_than_text(version)
    quote = "" if plain else found.quote or '"'
    made = (text[: found.start] + quote + version + quote + text[found.end :]).encode()
    if read_version(path, made, key) != version:
        raise AssertionError(f"{path}: {key} was not what was put there")  # a bug of ours
    return made


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"is not UTF-8: {error}", where=path, remedy="save it as UTF-8") from error


def _found(path: Path, text: str, key: str) -> Found:
    if path.suffix in _TOML:
        with wanted("a pin in TOML wants", extra="pins"):
            from ci.pins import toml_place  # noqa: PLC0415  # with tomlkit, of an extra

            start, end = toml_place.span(path, text, key)
        source = text[start:end]
    elif path.suffix in _YAML:
        start, end = _yaml_span(path, text, key)
        source = text[start:end]
    else:
        raise SettingsError(
            f"a file {path.suffix or 'without a suffix'} is neither YAML nor TOML",
            where=path,
            remedy="keep the pin in a file .yaml, .yml or .toml",
        )
    quote = source[0] if source[:1] in {"'", '"'} else ""
    version = source[1:-1] if quote else source
    if not VERSION.fullmatch(version):
        raise _error(path, text, start, f"{key}: {escaped(source)[:200]} is no version on one line")
    return Found(version=version, start=start, end=end, quote=quote)


def _yaml_span(path: Path, text: str, key: str) -> tuple[int, int]:
    """Where the one scalar of a key stands."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or type(error).__name__
        where = f"{path}:{mark.line + 1}" if mark else path
        raise SettingsError(f"is not YAML: {said}", where=where, remedy="mend it on that line") from error
    ways = [] if root is None else list(_ways(root, key.split("."), [root]))
    if root is None or not ways:
        raise SettingsError(
            f"{key}: there is no such key", where=path, remedy="check the pin's key, and the file"
        )
    node = ways[0][-1]
    if len(ways) > 1:
        raise _error(path, text, ways[1][-1].start_mark.index,
                     f"{key} stands twice, first on line {node.start_mark.line + 1}")  # fmt: skip
    start = node.start_mark.index
    used = Counter(id(child) for one in _every(root) for child in _children(one))
    if any(used[id(one)] > 1 for one in ways[0]) or text[start] == "&":
        raise _error(path, text, start, f"{key} is an anchor or an alias, and would change elsewhere too")
    if not isinstance(node, yaml.ScalarNode) or node.tag not in {_STR, *_NUMBERS}:
        raise _error(path, text, start, f"{key} is no text")
    return start, node.end_mark.index


def _ways(node: yaml.Node, key: Sequence[str], before: list[yaml.Node]) -> Iterator[list[yaml.Node]]:
    """Every way to what stands at a key; a key of the file may have dots itself."""
    if not key:
        yield before
    elif isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            for size in range(1, len(key) + 1):
                if isinstance(name, yaml.ScalarNode) and name.value == ".".join(key[:size]):
                    yield from _ways(value, key[size:], [*before, value])
    elif isinstance(node, yaml.SequenceNode) and key[0] in map(str, range(len(node.value))):
        value = node.value[int(key[0])]
        yield from _ways(value, key[1:], [*before, value])


def _every(root: yaml.Node) -> Iterator[yaml.Node]:
    """Each node once, however many aliases lead to it."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        node = waiting.pop()
        yield node
        for child in _children(node):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _else_than_text(version: str) -> bool:
    """Whether some reader of YAML, of 1.1 or 1.2, takes it for a number, a day or a truth."""
    node = yaml.compose(version, Loader=yaml.SafeLoader)
    number = re.fullmatch(r"[\d_]+(\.[\d_]*)?([eE][+-]?\d+)?|0[ox][\da-fA-F]+", version)
    return node is None or node.tag != _STR or number is not None


def _error(path: Path, text: str, index: int, what: str) -> SettingsError:
    line = text.count("\n", 0, index) + 1
    return SettingsError(
        what, where=f"{path}:{line}", remedy="give the pin one place of its own: `key: version` on one line"
    )
