"""The same flags for the same things: over all verbs, a name has one meaning, one type and one metavar."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from scripts.man_pages import Facts, Parameter

from .every_verb import every_verb

# Flags that mean several things, each with the words that tell them apart; a new meaning is a line here, with
# its reason, or it is a name that is already there.
MEANINGS = {
    "--attempt": "of a run the CI's; of a test which try of it",
    "--device": "the device's name; for `init` what the sources call it",
    "--seed": "of what is drawn",
    "--write": "write what is shown",
    "--at": "a moment: of lanes in their zone, of pins a day too",
    "--base": "what is compared with or gone into: a commit, a run or a branch",
    "--changed": "what changed since a commit: which files are linted, or which tests come first",
    "--check": "lanes compare files, pins decide: both end with 1 where they differ",
    "--config": "the settings file; of class times their own name for a configuration",
    "--context": "of a kubeconfig; of a commit's status, as GitHub calls it",
    "--expect": "what has to be there: an image's digest, or jobs",
    "--image": "an image's name",
    "--index": "a package index; of a job a pod's index, as Kubernetes calls it",
    "--only": "one of what is looked at: a linter or a repository",
    "--out": "the file to write",
    "--plan": "a plan: its file, or the run that has it",
    "--port": "of this machine",
    "--run": "of a release a run's folder; of a job its run's id",
    "--sha": "a commit",
    "--shards": "how many",
    "--stage": "a row of the roll-out",
    "--to": "where it goes",
    "--version": "of what is released",
    "--catalog": "a catalog: what else is read from it differs",
    "--durations": "a file of durations; of `pytorch`, as of pytest, how many slow tests to tell of",
    "--dry-run": "says what it would do, and does not",
    "--allow-collect-errors": "of a run",
    "--pytorch-src": "PyTorch's source; `scope` only counts its files",
    "--network": "of a container",
    "--limit": "how many",
    "--run-dir": "the run's folder, with the default of each verb",
    "--verbose": "more lines: of a run each test, of `scope` each rule without effect",
    "-v": "as --verbose",
}
# Types of a flag's meanings that differ.
KINDS = {
    "--base", "--check", "--config", "--durations", "--index",
    "--plan", "--run", "--to",
}  # fmt: skip
# One name for one thing: what is on the left is never a flag's name.
SYNONYMS = {
    "--output": "--out", "--output-file": "--out", "--as-json": "--json", "--format": "--json",
    "--dryrun": "--dry-run",
    "--check-only": "--dry-run", "--last": "--limit", "--max": "--limit",
    "--count": "--limit", "--older": "--keep-days", "--older-than": "--keep-days",
    "--run-folder": "--run-dir", "--folder": "--run-dir", "--repo": "--repository",
    "--settings": "--config", "--source": "--pytorch-src",
    "--number": "--limit", "--quiet-json": "--json", "--force": "--yes",
    "--sha1": "--sha", "--pr": "--pull-request",
}  # fmt: skip


def by_name() -> dict[str, list[tuple[Facts, Parameter]]]:
    found = defaultdict(list)
    for one in every_verb():
        for option in one.shown:
            for name in option.names:
                found[name].append((one, option))
    return dict(found)


def test_a_flag_of_one_meaning_says_the_same_everywhere() -> None:
    wrong = {
        name: sorted({option.help for _, option in uses})
        for name, uses in by_name().items()
        if name not in MEANINGS and len({option.help for _, option in uses}) > 1
    }
    assert wrong == {}


def test_a_flag_takes_the_same_everywhere() -> None:
    wrong = {
        name: sorted({(option.kind, option.repeated) for _, option in uses})
        for name, uses in by_name().items()
        if name not in KINDS and len({(option.annotation, option.repeated) for _, option in uses}) > 1
    }
    assert wrong == {}


def test_no_meaning_is_listed_that_is_none() -> None:
    uses = by_name()
    assert [name for name in MEANINGS if len({option.help for _, option in uses.get(name, ())}) < 2] == []
    assert [
        name
        for name in KINDS
        if len({(option.annotation, option.repeated) for _, option in uses.get(name, ())}) < 2
    ] == []


def test_a_flag_has_the_one_name_of_its_thing() -> None:
    assert [
        (verb.name, name) for name, uses in by_name().items() if name in SYNONYMS for verb, _ in uses
    ] == []


@pytest.mark.parametrize("name", ["--json", "--dry-run", "--run-dir", "--device", "--limit", "--namespace"])
def test_what_many_verbs_have_is_of_one_kind(name: str) -> None:
    uses = by_name()[name]
    assert len(uses) > 1
    assert len({(option.annotation, option.repeated, option.names) for _, option in uses}) == 1


def test_json_is_one_flag() -> None:
    assert {option.help for _, option in by_name()["--json"]} == {
        "Print one JSON document; words go to standard error."
    }


def test_names_are_lower_case_words_and_every_flag_says_what_it_is() -> None:
    for name, uses in by_name().items():
        assert re.fullmatch(r"-[a-zA-Z]|--[a-z0-9]+(-[a-z0-9]+)*", name), name
        for verb, option in uses:
            assert option.help, (verb.name, name)
            assert option.help.endswith((".", "?", "…")), (verb.name, name, option.help)


def test_no_flag_is_hidden() -> None:
    assert [
        (verb.name, option.names) for verb in every_verb() for option in verb.options if option.hidden
    ] == []
