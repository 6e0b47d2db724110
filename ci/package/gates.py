"""What must be green before a release may go to an index; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.config.package_model import Gate
from ci.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.findings import Finding, escaped, judged
from ci.package.records import BUILD, LINT, UNIT, VERIFY, Record

MERGE_STEPS = (LINT, UNIT, BUILD, VERIFY)
_SHA = re.compile(r"\b(?:at |\+g)([0-9a-f]{7,40})\b")
_EMULATED = "emulated"
# What a version says that was built of a changed checkout.
_DIRTY = ".dirty"
_SHOWN = 12


class GateError(SpyreCiError):
    """A gate that is shut: something that must be green is not."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Somebody's word that a check of a gate may be passed over; it is recorded with the release.

    Attributes:
        check: which.
        gate: the gate it was said for, and no other.
        by: who says so.
        reason: why.
        at: when, in ISO 8601.
    """

    check: str
    gate: Gate
    by: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of PyTorch's tests, by its `summary.json`.

    Attributes:
        name: its readable id.
        run_id: the CI's number of it.
        url: its page; empty where there is none.
        stage: row of the roll-out; None: a percentage was asked for by itself.
        percent: of the tests in scope.
        exit_code: how it ended.
        planned: how many tests.
        verdicts: how many came to each.
        pytorch: the commit of PyTorch's tests.
        commit: of the checkout, as its CI says; empty where it does not.
        back_end: what made the device.
        image: it ran in, name@sha256:…; empty where nobody said.
        restricted: what left tests out besides the share; empty: nothing did.
    """

    name: str
    run_id: int
    url: str
    stage: int | None
    percent: float
    exit_code: int
    planned: int
    verdicts: Mapping[str, int]
    pytorch: str
    commit: str
    back_end: str
    image: str
    restricted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a gate asks for.

    Attributes:
        gate: none, merge or full.
        project: its canonical name.
        version: of the release.
        files: SHA-256 by name.
        commit: of the release.
        dirty: files that differ from it.
        stage: the row of the roll-out in force.
        percent: its share.
        image: the image that the release names, name@sha256:…; empty: none.
    """

    gate: Gate
    project: str
    version: str
    files: Mapping[str, str]
    commit: str
    dirty: Sequence[str] = ()
    stage: int
    percent: float
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a gate came to.

    Attributes:
        gate: which.
        findings: every check.
        overrides: those that were passed over.
    """

    gate: Gate
    findings: tuple[Finding, ...]
    overrides: tuple[Override, ...] = ()

    @property
    def shut_by(self) -> list[Finding]:
        """The checks that did not pass and that nobody answers for."""
        answered = {one.check for one in self.overrides}
        return [one for one in self.findings if not one.passed and one.check not in answered]

    def as_json(self) -> dict[str, Any]:
        """As `release.json` holds it."""
        return {
            "gate": self.gate,
            "open": not self.shut_by,
            "checks": [{"check": one.check, "passed": one.passed, "seen": one.seen} for one in self.findings],
            "overrides": [
                {"check": one.check, "gate": one.gate, "by": one.by, "reason": one.reason, "at": one.at}
                for one in self.overrides
            ],
        }


def judge(
    wanted: Wanted,
    records: Mapping[str, Record | None],
    runs: Sequence[Run],
    overrides: Sequence[Override] = (),
) -> Judgement:
    """What a gate comes to.

    Args:
        wanted: what it asks for.
        records: of each step; None: it was not made.
        runs: of PyTorch's tests; the gate wants one that holds.
        overrides: checks somebody answers for.

    Raises:
        UsageError: an override names no check that is asked, or one that passed.
    """
    findings: list[Finding] = []
    if wanted.gate != "none":
        findings.append(_committed(wanted))
        findings += [_step(wanted, step, records.get(step)) for step in MERGE_STEPS]
        findings.append(_files(wanted, records.get(VERIFY)))
    if wanted.gate == "full":
        findings += _full_run(wanted, runs)
    _check_overrides(findings, overrides)
    return Judgement(gate=wanted.gate, findings=tuple(findings), overrides=tuple(overrides))


def refuse_shut(judgement: Judgement, index: str) -> None:
    """Raise where a gate is shut, naming what shuts it.

    Raises:
        GateError: it is.
    """
    shut = judgement.shut_by
    if not shut:
        return
    lines = "".join(f"\n  {one.check}: {one.seen}\n    remedy: {one.remedy}" for one in shut)
    raise GateError(
        f"the {judgement.gate} gate is shut{lines}",
        where=index,
        remedy="mend each; who answers for one says so: spyre-ci package release --override CHECK --by NAME "
        "--reason TEXT",
    )


def _committed(wanted: Wanted) -> Finding:
    dirty = ", ".join(wanted.dirty[:3])
    return judged(
        "commit",
        f"changed since: {dirty}" if dirty else wanted.commit or "no commit",
        holds=bool(wanted.commit) and not wanted.dirty,
        remedy="commit everything; what is published is what a commit holds",
    )


def _step(wanted: Wanted, step: str, record: Record | None) -> Finding:
    remedy = f"run spyre-ci package {step} on {wanted.commit[:_SHOWN] or 'a commit'}"
    if record is None:
        return Finding(check=step, seen="was not run", remedy=remedy)
    if record.project != wanted.project:
        return Finding(check=step, seen=f"is of the project {record.project}", remedy=remedy)
    of = f"of {record.commit[:_SHOWN] or 'no commit'}"
    if record.commit != wanted.commit or record.dirty:
        return Finding(check=step, seen=f"is {of}{', changed' if record.dirty else ''}", remedy=remedy)
    said = f"{'passed' if record.passed else 'failed'}, {of}{_not_looked(record)}"
    return judged(step, said, holds=record.passed, remedy=remedy)


def _not_looked(record: Record) -> str:
    """Which linters did not look, and why; empty where all did, and of other steps."""
    linters = record.details.get("linters")
    rows = linters.items() if isinstance(linters, dict) else ()
    why = {name: row.get("not_looked") for name, row in rows if isinstance(row, dict)}
    told = ", ".join(f"{escaped(name)} {escaped(str(said))}" for name, said in why.items() if said)
    return f"; not looked at: {told}" if told else ""


def _files(wanted: Wanted, verified: Record | None) -> Finding:
    """Whether the files are those that were verified."""
    rows = [] if verified is None else verified.details.get("files", [])
    known = {row.get("name"): row.get("sha256") for row in rows if isinstance(row, dict)}
    other = sorted(name for name, digest in wanted.files.items() if known.get(name) != digest)
    return judged(
        "files",
        f"not as they were verified: {', '.join(other)}" if other else f"{len(wanted.files)}, as verified",
        holds=bool(wanted.files) and not other,
        remedy="run spyre-ci package verify on them",
    )


def _full_run(wanted: Wanted, runs: Sequence[Run]) -> list[Finding]:
    """The checks of the run that fits best; each of them failed where there is none."""
    if runs:
        judged_runs = [_of_run(wanted, run) for run in runs]
        return min(judged_runs, key=lambda findings: sum(not one.passed for one in findings))
    remedy = "give its folder: spyre-ci package release --run DIR"
    return [
        Finding(check=check, seen="no run of PyTorch's tests was given", remedy=remedy)
        for check in ("run", "stage", "image", "device")
    ]


def _of_run(wanted: Wanted, run: Run) -> list[Finding]:
    whole = run.stage == wanted.stage and run.percent == wanted.percent and not run.restricted
    said = f"stage {run.stage}" if run.stage is not None else "no stage"
    only = f", only {run.restricted}" if run.restricted else ""
    counts = ", ".join(f"{count} {name}" for name, count in run.verdicts.items() if count) or "no tests"
    return [
        judged(
            "run",
            f"{run.name} ended with {run.exit_code}: {counts}",
            holds=run.exit_code == 0 and (run.planned > 0 or wanted.percent == 0),
            remedy="release a commit whose run is green",
        ),
        judged(
            "stage",
            f"{run.name} is {said}, {run.percent:g} %{only}",
            holds=whole,
            remedy=f"run all of stage {wanted.stage} ({wanted.percent:g} %), which is in force",
        ),
        _image(wanted, run),
        _device(wanted, run),
    ]


def _image(wanted: Wanted, run: Run) -> Finding:
    if not wanted.image:
        return Finding(
            check="image",
            seen="the release names no image",
            remedy="name the one it was tested on: spyre-ci package release --image NAME@sha256:…",
        )
    return judged(
        "image",
        f"{run.name} ran in {run.image or 'no image that anybody named'}",
        holds=run.image.rpartition("@")[2] == wanted.image.rpartition("@")[2] != "",
        remedy=f"run it in {wanted.image}, with SPYRE_CI_IMAGE saying so",
    )


def _device(wanted: Wanted, run: Run) -> Finding:
    """Whether the run's device was a card, with the back end of this commit."""
    remedy = f"run it on cards, with the back end built of {wanted.commit[:_SHOWN]}"
    if _EMULATED in run.back_end:
        return Finding(check="device", seen=f"{run.name} ran on {run.back_end}", remedy=remedy)
    return judged(
        "device",
        f"{run.back_end or 'an unknown back end'}, checked out: {run.commit[:_SHOWN] or 'an unknown commit'}",
        holds=_is_of(wanted, run),
        remedy=remedy,
    )


def _is_of(wanted: Wanted, run: Run) -> bool:
    """Whether the back end says that it is of this commit, or of this very version at this commit.

    What the CI has checked out says nothing of what is installed, so it is not enough by itself.
    """
    if _DIRTY in run.back_end:
        return False
    if found := _SHA.search(run.back_end):
        return bool(wanted.commit) and wanted.commit.startswith(found[1])
    _, _, version = run.back_end.partition(" ")
    same = bool(version) and version.partition("+")[0] == wanted.version.partition("+")[0]
    return same and run.commit == wanted.commit != ""


def _check_overrides(findings: Sequence[Finding], overrides: Sequence[Override]) -> None:
    failed = {one.check for one in findings if not one.passed}
    for one in overrides:
        if one.check not in failed:
            raise UsageError(
                f"--override {one.check!r} answers for nothing: "
                f"what did not pass is {', '.join(sorted(failed)) or 'nothing'}",
                remedy="leave it out, or name one of those",
            )
        if not one.by.strip() or not one.reason.strip():
            raise UsageError(
                f"--override {one.check} says not who or why", remedy="add --by NAME and --reason TEXT"
            )
