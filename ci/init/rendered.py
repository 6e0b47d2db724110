"""What is written into a checkout: texts by path, of templates and of what is known of the checkout; pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.config.report_model import Report
from ci.init.checkout import Place
from ci.init.detect import SPYRE, BackEnd
from ci.init.toolkit import Toolkit

SETTINGS = "spyre-ci.yaml"
JENKINSFILE = "Jenkinsfile"
WORKFLOWS = {
    "spyre-ci.yml": "pull-request",
    "spyre-ci-label.yml": "label",
    "spyre-ci-nightly.yml": "nightly",
    "spyre-ci-comment.yml": "comment",
}
_FOLDER = ".github/workflows/"
# A line of settings that begins a section.
_HEADING = re.compile(r"( *)(\w+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """All that the texts are made of.

    Attributes:
        back_end: that it is of.
        place: where it stands.
        toolkit: that is called.
        suites: folder of suite files; empty where there is none.
    """

    back_end: BackEnd
    place: Place
    toolkit: Toolkit
    suites: str = ""


def render(checkout: Checkout) -> dict[str, str]:
    """The texts by path, in the order they are shown.

    Below the folder of a repository there are settings alone: GitHub and Jenkins look into that folder only.
    """
    wanted = {SETTINGS: "spyre-ci.yaml"}
    if checkout.place.is_root:
        wanted |= {f"{_FOLDER}{name}": f"{template}.yml" for name, template in WORKFLOWS.items()}
        wanted[JENKINSFILE] = "Jenkinsfile"
    values = _values(checkout)
    texts = {path: _environment().get_template(f"{name}.j2").render(values) for path, name in wanted.items()}
    return texts | {SETTINGS: quiet(texts[SETTINGS])}


def quiet(text: str) -> str:
    """Settings where a section that sets nothing is a comment: it would be null, which is no section."""
    lines = text.splitlines()
    for at in range(len(lines) - 1, -1, -1):
        heading = _HEADING.fullmatch(lines[at])
        if heading and not any(_sets(line) for line in _below(lines[at + 1 :], len(heading[1]))):
            lines[at] = f"{heading[1]}# {heading[2]}:"
    return "\n".join(lines) + "\n"


def _below(lines: list[str], indent: int) -> Iterator[str]:
    """The lines of a section: up to the first that sets something and stands no deeper."""
    for line in lines:
        if _sets(line) and len(line) - len(line.lstrip()) <= indent:
            return
        yield line


def _sets(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def word(name: str) -> str:
    """A name as a word of YAML; one that YAML takes for a truth value or for nothing is quoted."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def called(toolkit: Toolkit, workflow: str) -> str:
    """The line that calls a workflow of the toolkit."""
    line = f"uses: {toolkit.repository}/.github/workflows/{workflow}@{toolkit.ref}"
    if not toolkit.is_pinned:
        return f"{line} # zizmor: ignore[unpinned-uses] named by a tag or branch, as nobody said a commit"
    # As Dependabot has it, which then renews both.
    return f"{line} # v{toolkit.version}"


def _values(checkout: Checkout) -> dict[str, object]:
    back_end, place, ref = checkout.back_end, checkout.place, checkout.toolkit.ref
    project = back_end.project or back_end.package
    return {
        "project": project,
        "package": word(back_end.package),
        "device": word(back_end.device),
        "is_spyre": back_end.device == SPYRE,
        "install": ["."],
        "toplevel": back_end.package != project.replace("-", "_").replace(".", "_"),
        "repository": place.repository,
        "default_repository": Report.model_fields["repository"].default,
        "branch": place.branch,
        "suites": checkout.suites,
        "toolkit": checkout.toolkit,
        # As Jenkins finds a tag; a branch has its own name there.
        "toolkit_commit": f"refs/tags/{ref}" if re.match(r"v\d", ref) else ref,
        "uses": lambda workflow: called(checkout.toolkit, workflow),
        # Not everybody's at once; the same for a project whenever it is asked.
        "minute": hashlib.sha256(project.encode()).digest()[0] % 60,
    }


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ci.init"),
        undefined=StrictUndefined,
        # `{{` is GitHub's.
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # not for a page
    )
