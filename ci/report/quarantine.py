"""The quarantine file: tests that run and are reported, and whose failures do not turn a run red until a day.

```yaml
quarantine:
  - test: test_ops.py::TestCommon::test_out[dtype=float16,op=kron]
    reason: the sum comes out in another order on two cards
    issue: https://github.com/torch-spyre/torch-spyre/issues/17
    owner: "@kernels"
    expires: 2026-12-24
```

In place of `test`, a test id, an entry may have `pattern`: a glob over the whole id, or a regular
expression between slashes (`test_selection.patterns`). One that covers tests which have nothing in common is
refused, and so is a day that is too far away: each would keep runs green for good.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path

from ci.core.errors import UsageError
from ci.core.text import counted
from ci.record.failure_marks import Quarantined
from test_selection.ids import parse_id
from test_selection.patterns import Pattern, compile_pattern
from test_selection.rule_fields import read_line
from test_selection.suite_check import Finding
from test_selection.yaml_reader import Reader

FILE = "quarantine.yaml"
# An entry that ends within so many days is told of.
SOON_DAYS = 7
# An entry protects for so long at most, from the day it is read.
MAX_DAYS = 180
# Tests of files, classes and templates that have nothing to do with each other, in every form ids have; some
# have a dtype in common, which is no kinship either.
STRANGERS = (
    "distributed/test_store.py::TCPStoreTest::test_set_get",
    "inductor/test_cpu_repro.py::CPUReproTests::test_linear_buffer_reuse",
    "nn/test_pooling.py::TestPoolingNNDeviceType::test_max_pool2d_indices[dtype=float32]",
    "quantization/core/test_workflow_module.py::TestObserver::test_per_channel_observers",
    "test_autograd.py::TestAutogradDeviceType::test_advanced_backward",
    "test_binary_ufuncs.py::TestBinaryUfuncs::test_reference_numerics[dtype=int64,op=add]",
    "test_complex.py::TestComplexTensor::test_eq[dtype=complex64]",
    "test_futures.py::test_done",
    "test_jit.py::JitFrontend::testInstancing",
    "test_linalg.py::TestLinalg::test_inverse[dtype=complex64]",
    "test_modules.py::TestModule::test_forward[dtype=bfloat16,module=nn.Linear]",
    "test_ops.py::TestCommon::test_out[dtype=float16,op=kron]",
    "test_reductions.py::TestReductions::test_mode_large[dtype=int64]",
    "test_shape_ops.py::TestShapeOps::test_flip[dtype=bool]",
    "test_unary_ufuncs.py::TestUnaryUfuncs::test_nan_to_num[dtype=bfloat16]",
    "test_view_ops.py::TestOldViewOps::test_transpose_vs_numpy[dtype=float16]",
    "test_zoo.py::TestZoo::test_weights[dtype=bool]",
    "xpu/test_gemm.py::TestBasicGEMM::test_addmm[dtype=float32]",
)
_NARROW = "name a file, class or template"
_KEYS = ("test", "pattern", "reason", "issue", "owner", "expires")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WEB = re.compile(r"https?://[^\s/]+\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry.

    Attributes:
        mark: what its tests are marked with.
        expires: the last day it protects.
        named: a test id or a pattern, as it is written.
        pattern: what the pattern was compiled to; None where it names one test.
    """

    mark: Quarantined
    expires: date
    named: str
    pattern: Pattern | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The key of the file under which it names what it covers."""
        return "test" if self.pattern is None else "pattern"

    def covers(self, name: str) -> bool:
        """Whether it names a test."""
        return name == self.named if self.pattern is None else bool(self.pattern.search(name))

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return today > self.expires


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """The entries of a file, in its order."""

    path: Path
    entries: tuple[Entry, ...] = ()

    def covering(self, names: Iterable[str]) -> dict[str, list[Entry]]:
        """By name, the entries that cover it; names that none covers are left out."""
        found: dict[str, list[Entry]] = {}
        for name in names:
            if entries := self._of(name):
                found[name] = entries
        return found

    def _of(self, name: str) -> list[Entry]:
        exact = self._exact.get(name)
        patterns = [one for one in self._patterns if one.covers(name)]
        return patterns if exact is None else [exact, *patterns]

    @cached_property
    def _exact(self) -> dict[str, Entry]:
        return {one.named: one for one in self.entries if one.pattern is None}

    @cached_property
    def _patterns(self) -> Sequence[Entry]:
        return [one for one in self.entries if one.pattern is not None]


def load_quarantine(path: Path, *, today: date) -> Quarantine:
    """Read a quarantine file.

    Args:
        path: the file.
        today: the day it is; no entry may end more than `MAX_DAYS` days later.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    root = Reader.load(path)
    root.known("quarantine")
    rows = root.rows("quarantine")
    entries = tuple(_entry(row, today) for row in rows)
    first: dict[str, Entry] = {}
    for row, entry in zip(rows, entries, strict=True):
        if (earlier := first.setdefault(entry.named, entry)) is not entry:
            key = entry.key
            raise row.error(
                key,
                f"{key} {entry.named!r} is listed twice, first at {earlier.mark.where}",
                "keep one of them",
            )
    return Quarantine(path=path, entries=entries)


def day_of(epoch_s: float) -> date:
    """The day of a moment, in UTC, so that an entry ends everywhere at once."""
    return datetime.fromtimestamp(epoch_s, UTC).date()


def _entry(row: Reader, today: date) -> Entry:
    row.known(*_KEYS)
    if ("test" in row.content) == ("pattern" in row.content):
        said = "both test and pattern" if "test" in row.content else "neither test nor pattern"
        raise row.error("test", f"the entry has {said}", "give it one of them")
    named, pattern = _named(row)
    expires = _day(row)
    if (days := (expires - today).days) > MAX_DAYS:
        latest = today + timedelta(days=MAX_DAYS)
        raise row.error(
            "expires",
            f"expires is {expires.isoformat()}, {counted(days, 'day')} from {today.isoformat()} on",
            f"give a day up to {latest.isoformat()}, {MAX_DAYS} days on; it can be given a later one then",
        )
    mark = Quarantined(
        reason=read_line(row, "reason"),
        issue=_web(row),
        owner=read_line(row, "owner"),
        expires=expires.isoformat(),
        where=f"{row.document.path.name}:{row.line}",
    )
    return Entry(mark=mark, expires=expires, named=named, pattern=pattern)


def _named(row: Reader) -> tuple[str, Pattern | None]:
    if "test" in row.content:
        test = row.text("test")
        try:
            parse_id(test)
        except UsageError as error:
            raise row.error("test", f"test: {error.what}", f"{error.remedy}, or use `pattern`") from error
        return test, None
    pattern = row.text("pattern")
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        raise row.error("pattern", f"pattern: {error}", "fix the pattern") from error
    if compiled.search(""):  # then nothing could turn a run red
        raise row.error("pattern", f"pattern {pattern!r} covers every test", _NARROW)
    if len(covered := [one for one in STRANGERS if compiled.search(one)]) > 1:
        said = f"covers tests that have nothing in common, such as {covered[0]} and {covered[1]}"
        raise row.error("pattern", f"pattern {pattern!r} {said}", _NARROW)
    return pattern, compiled


def _web(row: Reader) -> str:
    issue = row.text("issue")
    if not _WEB.fullmatch(issue):
        raise row.error(
            "issue", f"issue is {issue!r}, not a web address", "give the issue's https:// address"
        )
    return issue


def _day(row: Reader) -> date:
    """A day, which YAML takes for a date unless it is quoted."""
    value = row.content.get("expires")
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and _DAY.fullmatch(value.strip()):
            return date.fromisoformat(value.strip())
    except ValueError:  # the 31st of June
        pass
    shown = value.isoformat() if isinstance(value, datetime) else value
    raise row.error("expires", f"expires is {shown!r}, not a day", "write it as 2026-12-31")


def check_entries(
    quarantine: Quarantine, *, today: date, catalog: Collection[str] | None = None
) -> list[Finding]:
    """What somebody has to see to: entries that have expired or soon will, or that match no test.

    Args:
        quarantine: the file's entries.
        today: the day it is.
        catalog: every id that was collected; None leaves tests unchecked.
    """
    covered = (
        None
        if catalog is None
        else {one.named for entries in quarantine.covering(catalog).values() for one in entries}
    )
    checked = ((_overdue(entry, today), _gone(entry, covered)) for entry in quarantine.entries)
    return [found for found in itertools.chain.from_iterable(checked) if found is not None]


def _overdue(entry: Entry, today: date) -> Finding | None:
    days = (entry.expires - today).days
    if days >= SOON_DAYS:
        return None
    said = "has expired" if days < 0 else f"ends in {counted(days, 'day')}"
    return Finding(
        severity="error" if days < 0 else "warning",
        where=entry.mark.where,
        key="expires",
        value=entry.mark.expires,
        message=f"of {entry.mark.owner} {said}",
        remedy=f"fix {entry.named} and remove the entry, or give it a later date",
    )


def _gone(entry: Entry, covered: Collection[str] | None) -> Finding | None:
    if covered is None or entry.named in covered:
        return None
    glob = (
        " (in a glob `[` opens a set: write `[[]`)"
        if entry.pattern is not None and "[" in entry.named
        else ""
    )
    return Finding(
        severity="error",
        where=entry.mark.where,
        key=entry.key,
        value=entry.named,
        message="matches no test of the catalog",
        remedy=f"fix the name, or remove the entry{glob}",
    )
