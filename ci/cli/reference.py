"""The reference of the verbs: pages in Markdown and man pages, made of what the code says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ci.cli.facts import PROGRAM, Facts, Parameter

EXIT_CODES: Mapping[str, str] = {
    "0": "all is well; of a run: everything that ran passed, was skipped or failed as declared",
    "1": "what was asked about is not so: a test failed, a check did not hold, files differ",
    "2": "a flag, a setting or a file cannot be taken; nothing was changed",
    "3": "incomplete: something was not run, not reached or not delivered, and may be another time",
    "70": "a fault of spyre-ci; what it prints belongs into a report",
    "130": "interrupted",
}
FILES: Mapping[str, str] = {
    "spyre-ci.yaml": "settings of the checkout",
    "runs/": "a folder for each run (setting `runs`)",
    ".spyre-ci/": "what is kept between runs: history, HUD, caches (setting `state`)",
}
ENVIRONMENT: Mapping[str, str] = {
    "SPYRE_CI__SECTION__KEY": "any setting, such as `SPYRE_CI__RUN__CARDS=4`; a flag goes before it",
    "NO_COLOR": "no colours",
}
ALSO = "docs/verbs.md, docs/json.md, docs/completion.md"
NOTE = "<!-- Made by `python scripts/reference.py` of what the code says: change that, then make it anew. -->"


def pages(facts: Iterable[Facts], schemas: Sequence[str]) -> dict[str, str]:
    """The Markdown of each top-level verb, by file name.

    Args:
        facts: every verb and group, each after its group.
        schemas: names of the files in docs/schemas.
    """
    by_name: dict[str, list[Facts]] = {}
    for one in facts:
        by_name.setdefault(one.path[0], []).append(one)
    made = {f"{name}.md": _page(name, verbs, schemas) for name, verbs in by_name.items()}
    rows = [f"- [{PROGRAM} {name}]({name}.md): {verbs[0].help[0]}" for name, verbs in by_name.items()]
    return {"README.md": "\n".join([NOTE, "", "# Reference", "", *rows, ""]), **made}


def man_pages(facts: Iterable[Facts], version: str) -> dict[str, str]:
    """A man page of each verb and group, by file name.

    Args:
        facts: every verb and group.
        version: of spyre-ci.
    """
    return {f"{PROGRAM}-{'-'.join(one.path)}.1": _man(one, version) for one in facts}


def synopsis(verb: Facts) -> str:
    """A verb in a line: its required options, what else there is, its arguments."""
    words = [PROGRAM, *verb.path]
    words += [f"{one.names[0]} {one.kind}".strip() for one in verb.shown if one.required]
    if any(not one.required for one in verb.shown):
        words.append("[OPTIONS]")
    words += [_argument(one) for one in verb.arguments]
    return " ".join(words if verb.runs else [*words, "VERB …"])


def _argument(one: Parameter) -> str:
    name = one.names[0]
    more = "..." if one.repeated and not name.endswith(("...", "…", "...]", "…]")) else ""
    return f"{name}{more}" if one.required or name.startswith("[") else f"[{name}]{more}"


def _option(one: Parameter) -> str:
    names = ", ".join((*one.names, *one.negative))
    return f"{names} {one.kind}".rstrip()


def _told(one: Parameter) -> str:
    notes = [
        *(["required"] if one.required and not one.names[0][:1].isalpha() else []),
        *(
            ["may be given again"]
            if one.repeated and "again" not in one.help and "repeat" not in one.help
            else []
        ),
        *([f"default: {one.default}"] if one.default is not None and "default" not in one.help else []),
    ]
    return one.help + (f" ({'; '.join(notes)})" if notes else "")


def _page(name: str, verbs: Sequence[Facts], schemas: Sequence[str]) -> str:
    head = verbs[0]
    lines = [NOTE, "", f"# {PROGRAM} {name}", "", "## NAME", "", f"`{PROGRAM} {name}`: {head.help[0]}", ""]
    lines += ["## SYNOPSIS", "", "```text", *(synopsis(one) for one in verbs if one.runs), "```", ""]
    for one in verbs:
        lines += _part(one, alone=len(verbs) == 1, schemas=schemas)
    lines += ["## EXIT STATUS", "", *_rows("code", "meaning", EXIT_CODES), ""]
    lines += ["## FILES", "", *_rows("file", "what it is", FILES), ""]
    lines += ["## ENVIRONMENT", "", *_rows("variable", "meaning", ENVIRONMENT), ""]
    lines += [
        "## SEE ALSO",
        "",
        "[the verbs](../verbs.md), [--json](../json.md), [completion](../completion.md)",
        "",
    ]
    return "\n".join(lines)


def _part(one: Facts, *, alone: bool, schemas: Sequence[str]) -> list[str]:
    """DESCRIPTION, OPTIONS and EXAMPLES of a verb; below a heading of its own where there are several."""
    mark = "##" if alone else "###"
    lines = [] if alone else [f"## {PROGRAM} {one.name}", ""]
    lines += [f"{mark} DESCRIPTION", ""]
    for paragraph in one.help:
        lines += [_plain(paragraph), ""]
    if one.arguments and one.runs:
        rows = {_argument(each): _told(each) for each in one.arguments}
        lines += [f"{mark} ARGUMENTS", "", *_rows("argument", "meaning", rows), ""]
    if one.shown and one.runs:
        rows = {_option(each): _told(each) for each in one.shown}
        lines += [f"{mark} OPTIONS", "", *_rows("option", "meaning", rows), ""]
    if one.examples and one.runs:
        lines += [f"{mark} EXAMPLES", "", "```sh", *one.examples, "```", ""]
    schema = f"{'-'.join(one.path)}.json"
    if schema in schemas:
        lines += [f"What `--json` prints is described by [{schema}](../schemas/{schema}).", ""]
    return lines


def _rows(left: str, right: str, rows: Mapping[str, str]) -> list[str]:
    table = [f"| {left} | {right} |", "|---|---|"]
    return table + [f"| `{_cell(key)}` | {_plain(_cell(text))} |" for key, text in rows.items()]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(text: str) -> str:
    """Text that Markdown takes as it is: what is in backticks stays code."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else re.sub(r"([*<])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _man(one: Facts, version: str) -> str:
    title = f"{PROGRAM}-{'-'.join(one.path)}"
    lines = [f'.TH "{title.upper()}" "1" "" "{PROGRAM} {version}" "{PROGRAM}"', ".SH NAME"]
    lines += [
        f"{_roff(title)} \\- {_roff(one.help[0])}",
        ".SH SYNOPSIS",
        _roff(synopsis(one)),
        ".SH DESCRIPTION",
    ]
    for paragraph in one.help:
        lines += [".PP", _roff(paragraph)]
    if one.verbs:
        lines += [".SH VERBS", *(f".TP\n.B {_roff(f'{PROGRAM} {one.name} {name}')}" for name in one.verbs)]
    options = [(_argument(each), _told(each)) for each in one.arguments]
    options += [(_option(each), _told(each)) for each in one.shown]
    for heading, rows in (
        ("OPTIONS", options),
        ("EXIT STATUS", list(EXIT_CODES.items())),
        ("FILES", list(FILES.items())),
        ("ENVIRONMENT", list(ENVIRONMENT.items())),
    ):
        lines += [f".SH {heading}"] if rows else []
        lines += [f".TP\n.B {_roff(left)}\n{_roff(right)}" for left, right in rows]
    if one.examples:
        lines += [".SH EXAMPLES", ".nf", *(_roff(text) for text in one.examples), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", _roff(ALSO), ""])


def _roff(text: str) -> str:
    """Text that roff takes as it is."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    # A line that begins with one of these is a command.
    return re.sub(r"^([.'])", r"\\&\1", escaped)
