"""Resolving settings in one order, default < file < environment < flag, and knowing where each came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from ci.config.explain import ENV_PREFIX, explain, remedy_of
from ci.config.model import Origin, SettingsModel
from ci.core.addresses import without_secrets
from ci.core.errors import MissingInputError, SettingsError
from test_selection.yaml_reader import Document, load_document, parse_document

DEFAULT_FILE = "spyre-ci.yaml"
DESCRIBE = "see `spyre-ci config show --describe`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Resolved settings.

    Attributes:
        model: the values.
        origins: where each came from, by dotted key; a key that is not found has its default.
        path: the settings file, or None where there is none.
        base: the folder relative paths of the settings start from.
    """

    model: SettingsModel
    origins: Mapping[str, str]
    path: Path | None
    base: Path

    def resolve(self, path: Path) -> Path:
        """A path of the settings, made absolute."""
        return (self.base / path.expanduser()).resolve()

    @property
    def state_dir(self) -> Path:
        """The folder for caches, the store of results and its token."""
        return self.resolve(self.model.state)

    @property
    def store_path(self) -> Path:
        """The SQLite file of the store of results; it need not be there yet."""
        return self.state_dir / self.model.store.path


def load_settings(
    *,
    path: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    cwd: Path,
) -> Settings:
    """Read and check the settings.

    Args:
        path: the settings file; None looks for `spyre-ci.yaml` in `cwd` and does without when absent.
        environ: `SPYRE_CI__RUN__CARDS=4` sets `run.cards`; values are YAML, and an empty one is no setting:
            a pipeline hands inputs on by such variables, whether or not they were given.
        flags: dotted key to value; None values are left out.
        cwd: the folder to look in.

    Raises:
        MissingInputError: `path` was named and is not found.
        SettingsError: a file, key or value that cannot be taken, with file, line, key and remedy.
    """
    file = path if path is not None else cwd / DEFAULT_FILE
    if path is not None and not path.is_file():
        raise MissingInputError("there is no such settings file", where=path, remedy="check --config")
    document = load_document(file) if file.is_file() else Document.empty(file)
    model, origins = _resolved(document, environ, flags)
    found = file if file.is_file() else None
    return Settings(model=model, origins=origins, path=found, base=file.parent if found else cwd)


def parse_settings(text: str, *, path: Path, environ: Mapping[str, str], base: Path) -> Settings:
    """Check the settings that a text holds, such as that of a file in another commit.

    Args:
        text: as the file would have it.
        path: what errors name.
        environ: as `load_settings` has it.
        base: the folder relative paths of the settings start from.

    Raises:
        SettingsError: as `load_settings`.
    """
    model, origins = _resolved(parse_document(path, text), environ, {})
    return Settings(model=model, origins=origins, path=None, base=base)


def _resolved(
    document: Document, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> tuple[SettingsModel, dict[str, str]]:
    """The values in their order, and where each came from."""
    _check_sections(document, SettingsModel, [])
    origins: dict[str, str] = {}
    # The shipped roll-out is the base, so that a file can change one number of one stage.
    stages = SettingsModel().stages
    content: dict[str, Any] = {"stages": {str(number): row.model_dump() for number, row in stages.items()}}
    _merge(content, document.content, "file", origins)
    _merge(content, _from_environ(environ), "environment", origins)
    _merge(content, _nested({k: v for k, v in flags.items() if v is not None}), "flag", origins)
    try:
        return SettingsModel.model_validate(content), origins
    except ValidationError as error:
        raise explain(error, document, SettingsModel, origins=origins, see=DESCRIBE) from None


def _check_sections(document: Document, model: type[BaseModel], at: list[str]) -> None:
    """Refuse a file that has something else where a section belongs.

    Before the environment is merged, whose `hud.port` would make a section of it and nobody would be told.
    """
    content: Any = document.content
    for part in at:
        content = content[part]
    for name, field in model.model_fields.items():
        value, section = content.get(name), field.annotation
        below = section if isinstance(section, type) and issubclass(section, BaseModel) else None
        if value is None or (below is None and get_origin(section) is not dict):
            continue
        place = [*at, name]
        if not isinstance(value, Mapping):
            shown = without_secrets(json.dumps(value, default=str))[:200]
            raise SettingsError(
                f"{'.'.join(place)}: must be a table of keys (seen: {shown})",
                where=document.place(place),
                remedy=remedy_of(place, SettingsModel, see=DESCRIBE)
                if below is None
                else f"known keys here: {', '.join(below.model_fields)}",
            )
        if below is not None:
            _check_sections(document, below, place)


def rows(settings: Settings) -> Iterator[tuple[str, Any, str, str]]:
    """Yield (dotted key, value, origin, description) of every setting, in the order of the model.

    What may be a secret in an address is left out.
    """
    yield from _rows(settings.model, "", settings.origins, "")


def _rows(
    value: Any, key: str, origins: Mapping[str, str], description: str
) -> Iterator[tuple[str, Any, str, str]]:
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            dotted = f"{key}.{name}" if key else name
            yield from _rows(getattr(value, name), dotted, origins, field.description or "")
    elif isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _rows(one, f"{key}.{name}", origins, description)
    else:
        shown = value
        if isinstance(value, str):
            shown = without_secrets(value)
        elif isinstance(value, list):
            shown = [one.model_dump(mode="json") if isinstance(one, BaseModel) else one for one in value]
        yield key, shown, origins.get(key, "default"), description


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, text in environ.items():
        if name.startswith(ENV_PREFIX) and text.strip():
            key = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
            try:
                flat[key] = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise SettingsError(
                    f"{without_secrets(text)!r} is not a YAML value",
                    where=name,
                    remedy="quote it as in spyre-ci.yaml",
                ) from error
    return _nested(flat)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    # Shorter keys first: `run.cards` goes into the table that `run` set, whatever stood first.
    for key, value in sorted(flat.items(), key=lambda item: item[0].count(".")):
        *parents, leaf = key.split(".")
        table = tree
        for parent in parents:
            below = table.get(parent)
            table = table.setdefault(parent, {}) if isinstance(below, dict | None) else {}
        table[leaf] = value
    return tree


def _merge(
    into: dict[str, Any], new: Mapping[Any, Any], origin: Origin, origins: dict[str, str], at: str = ""
) -> None:
    for raw, value in new.items():
        key = str(raw)
        dotted = f"{at}.{key}" if at else key
        if isinstance(value, Mapping) and (value or isinstance(into.get(key), dict)):
            table = into.get(key)
            if not isinstance(table, dict):
                table = into[key] = {}
            _merge(table, value, origin, origins, dotted)
        else:
            into[key] = value
            origins[dotted] = origin
