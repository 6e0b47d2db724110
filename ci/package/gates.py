"""What must be green before a release may go to an index; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.utils import canonicalize_name

from ci.config.package_model import Gate
from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.core.findings import Finding, judged
from ci.core.text import clip, escaped
from ci.package.records import BUILD, LINT, UNIT, VERIFY, Record
from ci.record.environment import RanIn, all_in
from ci.record.verdict import PROBLEMS, Verdict

MERGE_STEPS = (LINT, UNIT, BUILD, VERIFY)
_SHA = re.compile(r"\b(?:at |\+g)([0-9a-f]{7,40})\b")
_EMULATED = "emulated"
# What a version says that was built of a changed checkout.
_DIRTY = ".dirty"
_SHOWN = 12
_MOST = 300


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
        seen: what the gate had found when it was said, which it answers for and nothing else; empty: it is
            said of what the gate finds now.
    """

    check: str
    gate: Gate
    by: str
    reason: str
    at: str
    seen: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it says who and why."""
        return bool(self.by.strip() and self.reason.strip())

    def answers(self, finding: Finding) -> bool:
        """Whether it is of this very finding."""
        return self.check == finding.check and self.seen == finding.seen

    def as_json(self) -> dict[str, str]:
        """As `release.json` holds it."""
        return {
            "check": self.check, "gate": self.gate, "by": self.by, "reason": self.reason, "at": self.at,
            "seen": self.seen,
        }  # fmt: skip


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
        ran_in: everything that its tests ran in, as they said; empty: nothing is known, and nothing proved.
        restricted: what left tests out besides the share; empty: nothing did.
        forgiven: how many failed in quarantine, which is no failure of a run.
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
    ran_in: tuple[RanIn, ...]
    restricted: str
    forgiven: int = 0

    @property
    def back_end(self) -> str:
        """What made the device of every test; empty where that is not known, or not the same."""
        return self.ran_in[0].back_end if len(self.ran_in) == 1 else ""


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
        lapsed: those that were said of something else than is found.
    """

    gate: Gate
    findings: tuple[Finding, ...]
    overrides: tuple[Override, ...] = ()
    lapsed: tuple[Override, ...] = ()

    @property
    def shut_by(self) -> list[Finding]:
        """The checks that did not pass and that nobody answers for."""
        failed = [one for one in self.findings if not one.passed]
        return [one for one in failed if not any(word.answers(one) for word in self.overrides)]

    def as_json(self) -> dict[str, Any]:
        """As `release.json` holds it."""
        return {
            "gate": self.gate,
            "open": not self.shut_by,
            "checks": [{"check": one.check, "passed": one.passed, "seen": one.seen} for one in self.findings],
            "overrides": [one.as_json() for one in self.overrides],
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
        overrides: checks somebody answers for; one that was said earlier counts where the gate finds the
            same again.

    Raises:
        UsageError: an override that is said now names no check that is asked, or one that passed.
    """
    findings: list[Finding] = []
    if wanted.gate != "none":
        findings.append(_committed(wanted))
        findings += [_step(wanted, step, records.get(step)) for step in MERGE_STEPS]
        findings.append(_files(wanted, records.get(VERIFY)))
    if wanted.gate == "full":
        findings += _full_run(wanted, runs)
    _check_overrides(findings, [one for one in overrides if not one.seen])
    failed = {one.check: one.seen for one in findings if not one.passed}
    words = [one if one.seen else replace(one, seen=failed[one.check]) for one in overrides]
    # What somebody answers for at one gate, nobody answers for at another.
    words = [one for one in words if one.check in failed and one.gate == wanted.gate and one.is_whole]
    return Judgement(
        gate=wanted.gate,
        findings=tuple(findings),
        overrides=tuple(one for one in words if one.seen == failed[one.check]),
        lapsed=tuple(one for one in words if one.seen != failed[one.check]),
    )


def refuse_shut(judgement: Judgement, index: str) -> None:
    """Raise where a gate is shut, naming what shuts it.

    Raises:
        GateError: it is.
    """
    shut = judgement.shut_by
    if not shut:
        return
    lapsed = {one.check: f"\n    {one.by} answered for: {one.seen}" for one in judgement.lapsed}
    lines = "".join(
        f"\n  {one.check}: {one.seen}{lapsed.get(one.check, '')}\n    remedy: {one.remedy}" for one in shut
    )
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
    if not record.passed:
        return Finding(check=step, seen=f"failed, {of}{_why(record)}", remedy=remedy)
    return Finding(check=step, seen=f"passed, {of}{_not_looked(record)}")


def _why(record: Record) -> str:
    """What failed in a step, as far as its record says: who answers for that answers for nothing else."""
    said = record.details
    counts = said.get("counts")
    checks, linters = said.get("checks"), said.get("by_linter")
    parts = {
        LINT: [f"{count} of {name}" for name, count in linters.items()] if isinstance(linters, dict) else [],
        UNIT: [*_list(counts.get("failing") if isinstance(counts, dict) else None), said.get("problem")],
        BUILD: [f"{name} differs" for name in _list(said.get("differing"))],
        VERIFY: [
            f"{one.get('check')} ({one.get('seen')})"
            for one in _list(checks)
            if isinstance(one, dict) and one.get("passed") is not True
        ],
    }
    told = ", ".join(str(part) for part in parts.get(record.step, ()) if part)
    if len(told) <= _MOST:
        return f": {told}" if told else ""
    # All of it is what somebody answers for, the part that is not shown as well.
    return f": {clip(told, _MOST)} ({hashlib.sha256(told.encode(errors='replace')).hexdigest()[:_SHOWN]})"


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, dict)) else []


def _not_looked(record: Record) -> str:
    """Which linters did not look, and why; empty where all did, and of other steps."""
    linters = record.details.get("linters")
    rows = linters.items() if isinstance(linters, dict) else ()
    why = {name: row.get("not_looked") for name, row in rows if isinstance(row, dict)}
    told = ", ".join(f"{escaped(name)} {escaped(str(said))}" for name, said in why.items() if said)
    return f"; not looked at: {told}" if told else ""


def _files(wanted: Wanted, verified: Record | None) -> Finding:
    """Whether the files are those that were verified."""
    known = verified.hashes if verified is not None else {}
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
    counts += f" ({run.forgiven} in quarantine)" if run.forgiven else ""
    return [
        judged(
            "run",
            f"{run.name} ended with {run.exit_code}: {counts}, of {run.planned} planned",
            holds=run.exit_code == 0 and _adds_up(run) and (run.planned > 0 or wanted.percent == 0),
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


def _adds_up(run: Run) -> bool:
    """Whether every planned test came to a verdict, none to one that a green run has not, some passed."""
    counts = {verdict: run.verdicts.get(verdict, 0) for verdict in Verdict}
    if sum(counts.values()) != run.planned or min(counts.values()) < 0 or run.verdicts.keys() - set(Verdict):
        return False
    counts[Verdict.FAILED] -= min(run.forgiven, counts[Verdict.FAILED])
    passed = counts[Verdict.PASSED] + counts[Verdict.FLAKY]
    return not any(counts[one] for one in PROBLEMS) and (passed > 0 or run.planned == 0)


def _image(wanted: Wanted, run: Run) -> Finding:
    if not wanted.image:
        return Finding(
            check="image",
            seen="the release names no image",
            remedy="name the one it was tested on: spyre-ci package release --image NAME@sha256:…",
        )
    images = sorted({one.image or "no image that anybody named" for one in run.ran_in})
    return judged(
        "image",
        f"{run.name} ran in {', '.join(images) or 'nobody knows what'}",
        holds=all_in(wanted.image, run.ran_in),
        remedy=f"run it in {wanted.image}, with SPYRE_CI_IMAGE saying so where its tests run",
    )


def _device(wanted: Wanted, run: Run) -> Finding:
    """Whether the run's device was a card, with the back end of this commit."""
    remedy = f"run it on cards, with the back end built of {wanted.commit[:_SHOWN]}"
    several = sorted({one.back_end or "an unknown back end" for one in run.ran_in})
    if len(run.ran_in) > 1 or _EMULATED in run.back_end:
        return Finding(check="device", seen=f"{run.name} ran on {', '.join(several)}", remedy=remedy)
    name = run.back_end.partition(" ")[0]
    if name and canonicalize_name(name) != wanted.project:
        return Finding(
            check="device",
            seen=f"{run.name} ran with the back end {name}, and {wanted.project} is released, of which that "
            "says nothing",
            remedy=f"run with {wanted.project} as the back end; if it is none, publish it to an index whose "
            "gate is merge, or answer for it",
        )
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
        if not one.is_whole:
            raise UsageError(
                f"--override {one.check} says not who or why", remedy="add --by NAME and --reason TEXT"
            )
