"""Whether a checkout's torch requirement and this environment's back end fit what is tested."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import ci
from ci.record.identity import EMULATED
from ci.runner.environment_info import PACKAGE, back_end
from ci.runner.inventory import EMULATE, EMULATED_DEVICE
from test_selection.files import read_bounded

# Entry points that torch calls when it is imported: a back end registers its device there.
GROUP = "torch.backends"
_OURS = "spyre-ci"
_EXTRA = re.compile(r"\bextra\s*==\s*['\"]torch['\"]")
_TORCH = re.compile(r"\s*torch\b(?![-.])", re.IGNORECASE)
# A line with those that it continues on, what is no requirement there, and a key of setup.cfg before one.
_LINE = re.compile(r"(?:.*\\\n)*.+")
_REST = re.compile(r"(?:^|\s)(?:#|--).*")
_KEY = re.compile(r"^[\w.-]+\s*[=:]\s*(?=torch)", re.IGNORECASE)
_POETRY = re.compile(r"(?P<sign>[~^]?)\s*(?P<version>\d[\w.*+!-]*)")
# Line, requirement, and the ranges of versions of which one is enough.
_Row = tuple[int, str, list[SpecifierSet]]


class Concern(NamedTuple):
    """Something a run can do without, and what to do about it."""

    message: str
    remedy: str


def torch_requirements() -> list[Requirement]:
    """Requirements of the extra `torch`: of the installed package, else of the checkout this code lies in."""
    try:
        listed = importlib.metadata.requires(_OURS) or []
        return [Requirement(one.partition(";")[0]) for one in listed if _EXTRA.search(one)]
    except importlib.metadata.PackageNotFoundError:
        project = Path(ci.__path__[0]).parent / "pyproject.toml"
        extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        return [Requirement(one) for one in extras["torch"]]


def torch_pin() -> str:
    """The version of torch that this spyre-ci tests; empty where it is not pinned."""
    pinned = (held for one in torch_requirements() if one.name == "torch" for held in one.specifier)
    return next((held.version for held in pinned if held.operator == "=="), "")


def torch_excluded(folder: Path, pin: str) -> list[Concern]:
    """One concern for each torch requirement of a project's files that excludes the pin.

    Args:
        folder: of the project; files that are missing or unreadable are passed over.
        pin: a version of torch; empty: nothing is excluded.
    """
    found = []
    paths = [*(folder / name for name in _READERS), *sorted(folder.glob("requirements*.txt"))]
    for path in paths if pin else ():
        try:
            text = read_bounded(path).decode("utf-8", "replace").replace("\r\n", "\n")
            rows = list(_READERS.get(path.name, _listed)(text))
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        for number, wanted, ranges in sorted(rows, key=lambda row: row[0]):
            if not any(one.contains(pin, prereleases=True) for one in ranges):
                found.append(_excluded(f"{path.name}:{number}" if number else path.name, wanted, pin))
    return found


def _needed(text: object) -> Iterator[tuple[str, list[SpecifierSet]]]:
    """A requirement of torch that applies to this Python and machine, with its range of versions."""
    if isinstance(text, str) and _TORCH.match(text):
        with contextlib.suppress(ValueError):
            one = Requirement(text.strip().rstrip(","))
            if canonicalize_name(one.name) == "torch" and _applies(one.marker):
                yield str(one), [one.specifier]


def _applies(marker: Marker | None) -> bool:
    return marker is None or marker.evaluate({"extra": ""})


def _listed(text: str) -> Iterator[_Row]:
    """Of a requirements file, or of setup.cfg: a requirement a line, which a backslash continues."""
    for found in _LINE.finditer(text):
        line = _REST.sub("", found[0].replace("\\\n", " ")).rstrip("\\")
        for one in _needed(_KEY.sub("", line)):
            yield (text.count("\n", 0, found.start()) + 1, *one)


def _in_python(text: str) -> Iterator[_Row]:
    """Of setup.py: its texts, which are read and not run."""
    with warnings.catch_warnings(action="ignore"):
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for number, line in enumerate(node.value.splitlines(), node.lineno):
                for one in _needed(line):
                    yield (number, *one)


def _in_toml(text: str) -> Iterator[_Row]:
    """Of pyproject.toml: of the project, its build, its groups and Poetry's."""
    content = tomllib.loads(text)
    project, poetry = table_of(content, "project"), table_of(content, "tool", "poetry")
    groups = [
        *table_of(project, "optional-dependencies").values(),
        *table_of(content, "dependency-groups").values(),
    ]
    listed = [project.get("dependencies"), table_of(content, "build-system").get("requires"), *groups]
    lines = [line.partition("#")[0] for line in text.split("\n")]
    for written in [one for group in listed if isinstance(group, list) for one in group]:
        for one in _needed(written):
            yield (_number(lines, re.compile(rf"[\"']{re.escape(written)}[\"']")), *one)
    tables = [poetry, *(one for one in table_of(poetry, "group").values() if isinstance(one, dict))]
    for table in tables:
        for name, rows in [
            *table_of(table, "dependencies").items(),
            *table_of(table, "dev-dependencies").items(),
        ]:
            if canonicalize_name(name) == "torch":
                for row in rows if isinstance(rows, list) else [rows]:
                    for one in _poetry(row):
                        yield (_number(lines, re.compile(rf"^\s*[\"']?{name}[\"']?\s*=|\.{name}\]")), *one)


def _poetry(row: object) -> Iterator[tuple[str, list[SpecifierSet]]]:
    """A requirement of torch as Poetry writes it: a range, or a table with one."""
    given = row if isinstance(row, dict) else {"version": row}
    version, marker = given.get("version"), given.get("markers")
    if isinstance(version, str):
        with contextlib.suppress(ValueError):
            if _applies(Marker(marker) if isinstance(marker, str) else None):
                ranges = [",".join(map(_range, one.split(","))) for one in version.split("||")]
                yield f"torch {version}", [SpecifierSet(one) for one in ranges]


def _range(text: str) -> str:
    """Poetry's `~` and `^`, a bare version and `*`, as the other tools have them."""
    found = _POETRY.fullmatch(text.strip())
    if found is None:
        return "" if text.strip() == "*" else text
    if not found["sign"]:
        return f"=={found['version']}"
    release = Version(found["version"]).release
    nonzero = next((place for place, one in enumerate(release) if one), len(release) - 1)
    place = nonzero if found["sign"] == "^" else min(len(release), 2) - 1
    above = ".".join(map(str, [*release[:place], release[place] + 1]))
    return f">={found['version']},<{above}"


def _number(lines: list[str], written: re.Pattern[str]) -> int:
    """The number of the next line that has this, which is then taken; 0: none."""
    for number, line in enumerate(lines, 1):
        if found := written.search(line):
            lines[number - 1] = line[: found.start()] + line[found.end() :]
            return number
    return 0


def table_of(content: Any, *keys: str) -> dict[str, Any]:
    """The table at some keys of a TOML document; empty where there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


_READERS: Mapping[str, Callable[[str], Iterator[_Row]]] = {
    "pyproject.toml": _in_toml,
    "setup.cfg": _listed,
    "setup.py": _in_python,
}


def _excluded(where: str, wanted: str, pin: str) -> Concern:
    return Concern(
        message=f"{where} requires {wanted}, which excludes torch {pin}, the version that is tested",
        remedy=f"allow {pin} there; until then pip builds or installs the project with another torch",
    )


def back_end_missing(device: str, environ: Mapping[str, str]) -> Concern | None:
    """A concern where no installed package makes the device; None for `cpu` and where emulation is asked for.

    Args:
        device: the device's name.
        environ: may ask for the emulated device.
    """
    if device == "cpu":
        return None
    if device == EMULATED_DEVICE:
        if environ.get(EMULATE) == "1" or back_end(environ) != EMULATED:
            return None
        return Concern(
            message=f"{PACKAGE} is not installed in this environment, so tests run on the emulated device",
            remedy=f"install {PACKAGE}, or set {EMULATE}=1 to use the emulated device on purpose",
        )
    if registered_back_ends():
        return None
    return Concern(
        message=f"no package in this environment registers the device {device} with torch "
        f"(entry point {GROUP})",
        remedy="install the back end's package into this environment, or set device.name",
    )


def registered_back_ends() -> list[str]:
    """Packages that register themselves with torch."""
    return [one.value.partition(":")[0] for one in importlib.metadata.entry_points(group=GROUP)]
