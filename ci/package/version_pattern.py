"""A version that stands in a file of any kind, where a regular expression finds it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from ci.core.errors import BadFileError, UsageError

# As scikit-build-core's and hatchling's documentation have them, but for the group's name.
DEFAULT = r'(?i)^(__version__|VERSION)(?: ?\: ?str)? *= *([\'"])v?(?P<value>.+?)\2'


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How a build back end finds a version.

    Attributes:
        regex: the expression.
        group: of it that is the version.
        result: how scikit-build-core makes the version of its groups.
        remove: what it then takes away, as an expression; empty: nothing.
    """

    regex: str = DEFAULT
    group: str = "value"
    result: str = "{value}"
    remove: str = ""

    def read(self, path: Path) -> str:
        """The version in a file.

        Raises:
            BadFileError: it is not there.
        """
        found = self._find(path, _text(path))
        if self.group != "value":
            return found[self.group]
        try:
            made = self.result.format(*found.groups(), **found.groupdict())
        except (LookupError, ValueError) as error:
            raise BadFileError(
                f"its version cannot be made as result = {self.result!r} says: {error}",
                where=path,
                remedy="mend tool.scikit-build.metadata.version",
            ) from error
        return re.sub(self.remove, "", made) if self.remove else made

    def write(self, path: Path, version: Version) -> None:
        """Put another version in the place of the one in a file.

        Raises:
            BadFileError: none is there.
            UsageError: the file cannot hold this one.
        """
        is_cmake = path.suffix == ".cmake" or path.name == "CMakeLists.txt"
        plain = str(version) == version.base_version
        if self.result != "{value}" or self.remove or (is_cmake and not plain):
            raise UsageError(
                f"version {version} cannot be put here: "
                + ("CMake takes numbers alone" if is_cmake else "the version is made of several parts"),
                where=path,
                remedy="set package.version: declared, and the version there by hand",
            )
        text = _text(path)
        start, end = self._find(path, text).span(self.group)
        path.write_bytes(f"{text[:start]}{version}{text[end:]}".encode())

    def _find(self, path: Path, text: str) -> re.Match[str]:
        try:
            found = re.search(self.regex, text, re.MULTILINE)
        except re.error as error:
            raise BadFileError(
                f"regex {self.regex!r} is none: {error}", where=path, remedy="mend it in pyproject.toml"
            ) from error
        if found is None or (self.result == "{value}" and not found.groupdict().get(self.group)):
            raise BadFileError(
                f"no version is here that {self.regex!r} finds as its group {self.group!r}",
                where=path,
                remedy="check the version's setting in pyproject.toml, or set package.version_file",
            )
        return found


def _text(path: Path) -> str:
    try:
        # As it is: line ends stay what they are.
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(
            f"cannot be read: {error}", where=path, remedy="check where pyproject.toml says the version is"
        ) from error
