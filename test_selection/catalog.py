"""The catalog: every collected test of one (PyTorch version, device), and what each file cost to collect."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from test_selection.errors import BadFileError, UsageError
from test_selection.files import collector_paused, read_lines, write_lines
from test_selection.ids import parse_id

KIND = "catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTest:
    """One collected test.

    Attributes:
        id: the test id, `file::Class::template[key=value,…]`, unique in its catalog.
        node: the raw pytest node id it had in this collection.
        file: the test file, relative to the tests' root, with forward slashes.
        cls: the class without its device suffix; empty for a plain function.
        template: the method or function before instantiation.
        op: the operator's or module's name, where the test has one.
        dtype: the dtype's name without `torch.`, where the test has one.
        markers: names of the pytest marks it carries, sorted, without pytest's own.
    """

    id: str
    node: str
    file: str
    cls: str = ""
    template: str = ""
    op: str | None = None
    dtype: str | None = None
    markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One file of a catalog.

    Attributes:
        collect_s: seconds to import and collect it.
        error: the last line of its error where it could not be collected.
        note: why it holds no tests though it is whole, such as a skip of the whole module.
    """

    collect_s: float = 0.0
    error: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every test of one collection and every file that was tried, those that failed included."""

    pytorch: str
    device: str
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    tests: list[CatalogTest] = field(default_factory=list)

    @property
    def collect_errors(self) -> dict[str, str]:
        """The error of each file that could not be collected."""
        return {name: record.error for name, record in self.files.items() if record.error is not None}


def parse_test(text: str, node: str = "") -> CatalogTest:
    """The test a test id names, from its parts alone: nothing is known of its markers.

    Raises:
        UsageError: it is not a test id.
    """
    file, cls, template, params = parse_id(text)
    if not file or not template:
        raise UsageError(
            f"{text!r} names no {'test' if file else 'file'}",
            remedy="write file::Class::template[key=value,…]",
        )
    # Under these names collecting notes what a test's op and dtype are.
    op = params.get("op") or params.get("module")
    dtype = params.get("dtype") or params.get("dtypes")
    return CatalogTest(
        id=text,
        node=node,
        file=sys.intern(file),
        cls=sys.intern(cls),
        template=sys.intern(template),
        op=op and sys.intern(op),
        dtype=dtype and sys.intern(dtype),
    )


def write_catalog(path: Path, catalog: Catalog) -> None:
    """Write `catalog.jsonl.gz`: a header line with the files, then a line a test."""
    files = {
        name: {
            "collect_s": round(record.collect_s, 3),
            "error": record.error,
            **({"note": record.note} if record.note else {}),
        }
        for name, record in catalog.files.items()
    }
    header = {"pytorch": catalog.pytorch, "device": catalog.device, "files": files}
    write_lines(path, KIND, header, _rows(catalog.tests))


def read_catalog(path: Path) -> Catalog:
    """Read a catalog.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it is cut short, of another schema, a key is missing or an id stands twice.
    """
    lines = read_lines(path, KIND)
    header = next(lines)
    number = 1
    try:
        files = {
            sys.intern(name): FileRecord(
                collect_s=_seconds(row["collect_s"]), error=row.get("error"), note=row.get("note")
            )
            for name, row in header["files"].items()
        }
        tests: dict[str, CatalogTest] = {}
        with collector_paused():
            for number, row in enumerate(lines, start=2):
                test = _test(row)
                if test.id in tests:
                    raise BadFileError(
                        f"the id {test.id!r} is there twice",
                        where=f"{path}:{number}",
                        remedy="collect again; ids are unique within a catalog",
                    )
                tests[test.id] = test
        pytorch, device = str(header["pytorch"]), str(header["device"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=f"{path}:{number}",
            remedy="collect again with `spyre-ci collect`",
        ) from error
    return Catalog(pytorch=pytorch, device=device, files=files, tests=list(tests.values()))


def _rows(tests: Iterable[CatalogTest]) -> Iterator[dict[str, Any]]:
    for test in tests:
        yield {
            "id": test.id,
            "node": test.node,
            "file": test.file,
            "class": test.cls,
            "template": test.template,
            "op": test.op,
            "dtype": test.dtype,
            **({"markers": test.markers} if test.markers else {}),
        }


def _seconds(value: Any) -> float:
    seconds = float(value)
    # Infinity and NaN are legal to Python's JSON reader and would poison every plan.
    if not 0 <= seconds < 1e9:  # noqa: PLR2004  # thirty years
        raise ValueError(f"collect_s is {value!r}, not seconds of 0 or more")
    return seconds


def _test(row: Mapping[str, Any]) -> CatalogTest:
    # Files, classes, templates, ops and dtypes repeat thousands of times: one string each keeps a
    # catalog of a million tests within half a gigabyte.
    op, dtype, name = row["op"], row["dtype"], row["id"]
    if not isinstance(name, str):
        raise TypeError(f"id is {name!r}, not text")
    return CatalogTest(
        id=name,
        node=row["node"],
        file=sys.intern(row["file"]),
        cls=sys.intern(row["class"]),
        template=sys.intern(row["template"]),
        op=op and sys.intern(op),
        dtype=dtype and sys.intern(dtype),
        markers=_markers(row["markers"]) if "markers" in row else (),
    )


def _markers(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"markers is {names!r}, not a list of text")
    return tuple(map(sys.intern, names))
