"""The comment on a pull request as GitHub's Markdown; pure.

Whatever comes from a run stands in code, as in a run's summary: it makes no link, no mention and no markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci.core.text import counted
from ci.record.identity import source_in
from ci.record.reproduce_line import ref_of, reproduce_line
from ci.record.verdict import Verdict, counts_in_words
from ci.report.compare.comparison import compare_sides
from ci.report.compare.lines import sections
from ci.report.compare.sides import side_of
from ci.report.reader import ReadRun, Row, RunInfo
from ci.report.summary import code, fence

# GitHub takes 65,536 characters; counted in bytes, whoever counts otherwise finds fewer.
MAX_BYTES = 65_000
MAX_JOBS = 20
MAX_ROWS = 20
MAX_COMMANDS = 10
MAX_NAMES = 10
# Longer ones nobody pastes.
LONGEST = 2000
_MARKER = re.compile(r"<!-- spyre-ci:comment:([a-z0-9-]{1,80}):(\d{1,20}):(\d{1,9}) -->")
_LINKABLE = re.compile(r"https://[A-Za-z0-9.:-]+(/[A-Za-z0-9._/-]*)?")
_UPSTREAM = re.compile(r"git\+https://github\.com/pytorch/pytorch(\.git)?@[A-Za-z0-9._/-]{1,100}")
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run folder of a pipeline.

    Attributes:
        title: what it is of, such as the artifact's name.
        run: what it tells; None where nothing usable was handed on.
        trouble: why there is nothing.
        base: what main's run tells; None where there is none to compare with.
        base_said: which run that is, or why there is none.
    """

    title: str
    run: ReadRun | None = None
    trouble: str = ""
    base: ReadRun | None = None
    base_said: str = ""


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
    parts: Sequence[Part] = ()

    @property
    def green(self) -> bool:
        """True if nothing speaks against it."""
        ran = self.conclusion in {"", "success"} and not self.jobs
        return ran and all(part.run is not None and part.run.green for part in self.parts)


def marker(name: str, run_id: int, attempt: int) -> str:
    """The line nobody sees by which the comment is found again, and which run it tells of."""
    return f"<!-- spyre-ci:comment:{slug(name)}:{run_id}:{attempt} -->"


def marked(body: str, name: str) -> tuple[int, int] | None:
    """Run and attempt a comment tells of; None where it is not the one of that name."""
    found = _MARKER.match(body)
    return (int(found[2]), int(found[3])) if found is not None and found[1] == slug(name) else None


def slug(name: str) -> str:
    """A name as a marker holds it: nothing in it can end one."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "spyre-ci"


def render(comment: Comment) -> str:
    """The comment's whole text, never more than GitHub takes.

    What everybody needs stands in every comment; of the rest what fits, each piece whole, how each part came
    out before any details.
    """
    first = [marker(comment.name, comment.run_id, comment.attempt), *_head(comment)]
    pieces = [(0, text) for text in _list("Jobs that did not succeed:", map(_job, comment.jobs), MAX_JOBS)]
    for part in comment.parts:
        pieces.append((0, _headline(part)))
        pieces += [(1, text) for text in _details(part) if text]
    cut = f"More is left out here for its size; see{_linked(' the run', comment.url)}."
    last = "This comment is kept up to date with the newest run."
    if not comment.green:
        last = f"To rerun what failed, rerun its jobs on the run's page. {last}"
    room, picked = MAX_BYTES - sum(map(_size, (*first, cut, last))), set()
    for place, (_, text) in sorted(enumerate(pieces), key=lambda one: one[1][0]):
        if _size(text) <= room:
            room -= _size(text)
            picked.add(place)
    shown = [text for place, (_, text) in enumerate(pieces) if place in picked]
    return "\n\n".join([*first, *shown, *([cut] if len(shown) < len(pieces) else []), last]) + "\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace")) + 2


def _linked(text: str, url: str) -> str:
    """A text that leads to an address, where that can be nothing more than one."""
    blank = " " if text.startswith(" ") else ""
    return f"{blank}[{text.strip()}]({url})" if _LINKABLE.fullmatch(url) else text


def _head(comment: Comment) -> list[str]:
    """The heading, and which run of which commit it is of."""
    runs = [part.run for part in comment.parts if part.run]
    failed, planned = sum(row.red for run in runs for row in run.rows), sum(len(run.rows) for run in runs)
    if comment.green:
        said = f"all of {counted(planned, 'test')} accounted for, nothing failed" if planned else "green"
    elif failed:
        said = f"{failed:,} of {counted(planned, 'test')} failed"
    else:
        said = "not green, though no test failed" if planned else "not green"
    run = f"run {comment.run_id}" + (f", attempt {comment.attempt}" if comment.attempt > 1 else "")
    ended = f" · ended as {code(comment.conclusion, 40)}" if comment.conclusion else ""
    commit = f"commit {code(comment.sha[:12])} · " if comment.sha else ""
    return [f"### {code(comment.name, 80)}: {said}", f"{commit}{_linked(run, comment.url)}{ended}"]


def _job(job: Job) -> str:
    log = f" ({_linked('log', job.url)})" if _LINKABLE.fullmatch(job.url) else ""
    return f"{code(job.name, 120)}: {code(job.conclusion, 40)}{log}"


def _list(title: str, texts: Iterable[str], most: int) -> list[str]:
    """A list under its title, the first so many; nothing where it is empty."""
    rows = [f"- {text}" for text in texts]
    more = [f"- and {len(rows) - most:,} more"] if len(rows) > most else []
    return ["\n".join([title, "", *rows[:most], *more])] if rows else []


def _headline(part: Part) -> str:
    """How a part came out, in a few lines."""
    title = f"**{code(part.title, 80)}**"
    if part.run is None:
        return f"{title}: no results" + (f" ({code(part.trouble, 300)})" if part.trouble else "")
    summary, info = part.run.summary, part.run.summary.identity
    stage = "" if info.stage is None else f"stage {info.stage}, "
    pytorch = f"PyTorch {code(info.pytorch_version, 60)} {code(info.pytorch_sha[:12])}"
    lines = [
        f"{title}: {counts_in_words(part.run.counts) or 'no tests'}",
        f"{stage}{info.percent:g} % · device {code(info.device, 60)} · {pytorch}",
    ]
    if summary.reasons:
        reasons = "; ".join(code(one, 200) for one in summary.reasons[:5])
        lines.append(f"exit {summary.exit_code}: {reasons}")
    return "  \n".join([*lines, *(code(note, 300) for note in summary.notes[:5])])


def _details(part: Part) -> list[str]:
    """What follows of a part, the most wanted first."""
    run = part.run
    if run is None:
        return []
    # What changed against main, as `spyre-ci compare` says it, or why nobody knows.
    if part.base is None:
        changes = [f"Not compared with main: {code(part.base_said, 200)}" if part.base_said else ""]
    else:
        changes = sections(compare_sides(side_of(run), side_of(part.base)), part.base_said, limit=MAX_NAMES)
    by = {verdict: [row for row in run.rows if row.verdict is verdict] for verdict in Verdict}
    failed = [row for row in by[Verdict.FAILED] if row.red]
    errors = run.summary.collect_errors
    broken = (f"{code(one.file, 200)}: {code(one.error, 200)}" for one in errors)
    return [
        changes[0],
        *_table("Failed", failed),
        *_commands(failed, run.summary.identity),
        *_list(f"#### Could not be collected ({len(errors):,})", broken, MAX_ROWS),
        *changes[1:],
        *_table("Flaky", by[Verdict.FLAKY]),
        *_table("Fault of the card", by[Verdict.HARDWARE]),
        *_table("Lost to infrastructure", by[Verdict.INFRASTRUCTURE]),
        *_table("Not run", by[Verdict.NOT_RUN]),
        *_table("Failed in quarantine", [row for row in by[Verdict.FAILED] if not row.red]),
    ]


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


def _commands(failed: Sequence[Row], info: RunInfo) -> list[str]:
    """How to run what failed again on a machine of one's own, folded away."""
    lines = [command_for(row.id, info, row.tried) for row in failed[:MAX_COMMANDS]]
    short = [line for line in lines if len(line) <= LONGEST]
    if not short:
        return []
    title = "Reproduce" + (f" (the first {MAX_COMMANDS})" if len(failed) > MAX_COMMANDS else "")
    text = fence("\n".join(short), "sh")
    return [f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"]


def command_for(name: str, info: RunInfo, attempt: int = 1) -> str:
    """The command line that runs one test again, made of what can be trusted and the test's quoted name.

    It is the line of the report, but for what only that run's machine has. People paste it: a word that a
    stranger's file brings is in it only where it can do no harm.
    """
    source = source_in(info.reproduce) if "--pytorch-src" in info.reproduce else None
    if "--pytorch-src" in info.reproduce and not _UPSTREAM.fullmatch(source or ""):
        source = "../pytorch"  # where the tree was on another machine says nothing here
    return reproduce_line(
        name,
        device=info.device if _DEVICE.fullmatch(info.device) else "spyre",
        source=source,
        sha=info.pytorch_sha,
        seed=info.seed,
        ref=ref_of(run=info.run, provider=info.provider, run_id=info.run_id, run_attempt=info.run_attempt),
        attempt=max(attempt, 1),
    )
