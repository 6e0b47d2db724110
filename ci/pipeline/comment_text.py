"""The comment on a pull request as GitHub's Markdown; pure.

Whatever comes from a run stands in code, as in a run's summary: it makes no link, no mention and no markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ci.core.text import counted
from ci.pipeline.side import side_of
from ci.pipeline.told import Row, Told, command_for
from ci.record.verdict import Verdict, counts_in_words
from ci.report.compare.comparison import compare_sides
from ci.report.compare.lines import sections
from ci.report.summary import code, fence

MAX_ROWS = 20
MAX_COMMANDS = 10
MAX_NAMES = 10
# Longer ones nobody pastes.
LONGEST = 2000
_OTHERS = {
    Verdict.HARDWARE: "Fault of the card",
    Verdict.INFRASTRUCTURE: "Lost to infrastructure",
    Verdict.NOT_RUN: "Not run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run folder of a pipeline.

    Attributes:
        title: what it is of, such as the artifact's name.
        told: what it tells; None where nothing usable was handed on.
        trouble: why there is nothing.
        base: what main's run tells; None where there is none to compare with.
        base_said: which run that is, or why there is none.
    """

    title: str
    told: Told | None = None
    trouble: str = ""
    base: Told | None = None
    base_said: str = ""


def headline(part: Part) -> str:
    """How a part came out, in a few lines."""
    if part.told is None:
        why = f" ({code(part.trouble, 300)})" if part.trouble else ""
        return f"**{code(part.title, 80)}**: no results{why}"
    told = part.told
    counts = told.counts
    said = counts_in_words(counts) or "no tests"
    stage = "" if told.who.stage is None else f"stage {told.who.stage}, "
    pytorch = f"PyTorch {code(told.who.pytorch_version, 60)} {code(told.who.pytorch_sha[:12])}"
    lines = [
        f"**{code(part.title, 80)}**: {said}",
        f"{stage}{told.who.percent:g} % · device {code(told.who.device, 60)} · {pytorch}",
    ]
    if told.reasons:
        lines.append(f"exit {told.exit_code}: {'; '.join(code(one, 200) for one in told.reasons[:5])}")
    lines += [code(note, 300) for note in told.notes[:5]]
    return "  \n".join(lines)


def details_of(part: Part) -> list[str]:
    """What follows of a part, the most wanted first."""
    told = part.told
    if told is None:
        return []
    failed = [row for row in told.rows if row.red]
    changed, *times = _changes(part)
    texts = [changed, *_table("Failed", failed), *_commands(failed, told)]
    texts += [*_uncollected(told), *times]
    texts += _table("Flaky", [row for row in told.rows if row.verdict is Verdict.FLAKY])
    for verdict, title in _OTHERS.items():
        texts += _table(title, [row for row in told.rows if row.verdict is verdict])
    texts += _table(
        "Failed in quarantine", [row for row in told.rows if row.verdict is Verdict.FAILED and not row.red]
    )
    return texts


def _changes(part: Part) -> list[str]:
    """What changed against main, as `spyre-ci compare` says it, or why nobody knows; at least one text."""
    if part.told is None or part.base is None:
        return [f"Not compared with main: {code(part.base_said, 200)}" if part.base_said else ""]
    return sections(compare_sides(side_of(part.told), side_of(part.base)), part.base_said, limit=MAX_NAMES)


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    lines = [f"#### {title} ({len(rows):,})", "", "| test | cause | card | message |", "|---|---|---|---|"]
    for row in rows[:MAX_ROWS]:
        # Whose it is, where the control device told.
        cause = "; ".join(filter(None, (row.cause, "upstream's" if row.upstream else "")))
        cells = (code(row.id), code(cause, 80), code(row.card or "", 80), code(row.message, 200))
        lines.append(f"| {' | '.join(cells)} |")
    if len(rows) > MAX_ROWS:
        lines += ["", f"{len(rows) - MAX_ROWS:,} more in the run's report"]
    return ["\n".join(lines)]


def _commands(failed: Sequence[Row], told: Told) -> list[str]:
    """How to run what failed again on a machine of one's own, folded away."""
    lines = [
        line
        for row in failed[:MAX_COMMANDS]
        if len(line := command_for(row.id, told.who, row.tried)) <= LONGEST
    ]
    if not lines:
        return []
    title = "Reproduce" + (f" (the first {MAX_COMMANDS})" if len(failed) > MAX_COMMANDS else "")
    return [f"<details><summary>{title}</summary>\n\n{fence(chr(10).join(lines), 'sh')}\n\n</details>"]


def _uncollected(told: Told) -> list[str]:
    errors = told.collect_errors
    if not errors:
        return []
    rows = [f"- {code(one.file, 200)}: {code(one.error, 200)}" for one in errors[:MAX_ROWS]]
    more = [f"- and {len(errors) - MAX_ROWS:,} more"] if len(errors) > MAX_ROWS else []
    return ["\n".join([f"#### Could not be collected ({len(errors):,})", "", *rows, *more])]


# GitHub takes 65,536 characters; counted in bytes, whoever counts otherwise finds fewer.
MAX_BYTES = 65_000
MAX_JOBS = 20
_MARKER = re.compile(r"<!-- spyre-ci:comment:([a-z0-9-]{1,80}):(\d{1,20}):(\d{1,9}) -->")
_LINKABLE = re.compile(r"https://[A-Za-z0-9.:-]+(/[A-Za-z0-9._/-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that did not succeed, by the CI's own word."""

    name: str
    conclusion: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """What the comment tells of.

    Attributes:
        name: of the comment; a pull request has one of each name.
        run_id: of the pipeline's run, which only grows.
        attempt: of that run, from 1.
        sha: the pull request's commit.
        url: page of the run.
        conclusion: of the run, in GitHub's word; empty where it is not known.
        jobs: that did not succeed.
        parts: run folders, in the order they are shown.
    """

    name: str
    run_id: int
    attempt: int
    sha: str
    url: str = ""
    conclusion: str = ""
    jobs: Sequence[Job] = ()
    parts: Sequence[Part] = field(default_factory=tuple)

    @property
    def green(self) -> bool:
        """Whether nothing speaks against it."""
        ran = self.conclusion in {"", "success"} and not self.jobs
        return ran and all(part.told is not None and part.told.green for part in self.parts)


def marker(name: str, run_id: int, attempt: int) -> str:
    """The line nobody sees by which the comment is found again, and which run it tells of."""
    return f"<!-- spyre-ci:comment:{slug(name)}:{run_id}:{attempt} -->"


def marked(body: str, name: str) -> tuple[int, int] | None:
    """Run and attempt a comment tells of; None where it is not the one of that name."""
    found = _MARKER.match(body)
    if found is None or found[1] != slug(name):
        return None
    return int(found[2]), int(found[3])


def slug(name: str) -> str:
    """A name as a marker holds it: nothing in it can end one."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "spyre-ci"


def render(comment: Comment) -> str:
    """The comment's whole text, never more than GitHub takes.

    What everybody needs stands in every comment; of the rest what fits, each piece whole, how each part came
    out before any details.
    """
    first = [marker(comment.name, comment.run_id, comment.attempt), _head(comment), _facts(comment)]
    pieces = [(0, text) for text in _jobs(comment.jobs)]
    for part in comment.parts:
        pieces.append((0, headline(part)))
        pieces += [(1, text) for text in details_of(part) if text]
    cut, last = _left_out(comment), _last(comment)
    shown = _fitting(pieces, MAX_BYTES - sum(map(_size, (*first, cut, last))))
    return "\n\n".join([*first, *shown, *([cut] if len(shown) < len(pieces) else []), last]) + "\n"


def _head(comment: Comment) -> str:
    failed = sum(row.red for part in comment.parts if part.told for row in part.told.rows)
    planned = sum(len(part.told.rows) for part in comment.parts if part.told)
    if comment.green:
        said = f"all of {counted(planned, 'test')} accounted for, nothing failed" if planned else "green"
    elif failed:
        said = f"{failed:,} of {counted(planned, 'test')} failed"
    else:
        said = "not green, though no test failed" if planned else "not green"
    return f"### {code(comment.name, 80)}: {said}"


def _facts(comment: Comment) -> str:
    run = f"run {comment.run_id}" + (f", attempt {comment.attempt}" if comment.attempt > 1 else "")
    linked = f"[{run}]({comment.url})" if _LINKABLE.fullmatch(comment.url) else run
    ended = f" · ended as {code(comment.conclusion, 40)}" if comment.conclusion else ""
    commit = f"commit {code(comment.sha[:12])} · " if comment.sha else ""
    return f"{commit}{linked}{ended}"


def _jobs(jobs: Sequence[Job]) -> list[str]:
    if not jobs:
        return []
    rows = [
        f"- {code(job.name, 120)}: {code(job.conclusion, 40)}"
        + (f" ([log]({job.url}))" if _LINKABLE.fullmatch(job.url) else "")
        for job in jobs[:MAX_JOBS]
    ]
    more = [f"- and {len(jobs) - MAX_JOBS:,} more"] if len(jobs) > MAX_JOBS else []
    return ["\n".join(["Jobs that did not succeed:", "", *rows, *more])]


def _last(comment: Comment) -> str:
    kept = "This comment is kept up to date with the newest run."
    if comment.green:
        return kept
    return f"To run again what failed, start its jobs again from the run's page. {kept}"


def _left_out(comment: Comment) -> str:
    where = f" [the run]({comment.url})" if _LINKABLE.fullmatch(comment.url) else " the run"
    return f"More is left out here for its size; see{where}."


def _fitting(pieces: Sequence[tuple[int, str]], room: int) -> list[str]:
    """Those that fit, picked by their rank and shown in their order."""
    picked = set()
    for place, (_, text) in sorted(enumerate(pieces), key=lambda one: one[1][0]):
        if _size(text) <= room:
            room -= _size(text)
            picked.add(place)
    return [text for place, (_, text) in enumerate(pieces) if place in picked]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace")) + 2
