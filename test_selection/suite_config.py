"""Suite files of torch-spyre: reading them (`suite_read`) and what they mean (`suite_meaning`)."""

from __future__ import annotations

from test_selection.suite_meaning import (
    Decider,
    Decision,
    Suites,
    expectations,
    for_root,
    in_suite,
    narrow,
    unmatched_paths,
)
from test_selection.suite_model import DEFAULT_UNLISTED, MANDATORY, MODES, Entry, Root, Suite, SuiteFile
from test_selection.suite_paths import suite_paths
from test_selection.suite_read import load_suite, parse_suite

__all__ = [
    "DEFAULT_UNLISTED",
    "MANDATORY",
    "MODES",
    "Decider",
    "Decision",
    "Entry",
    "Root",
    "Suite",
    "SuiteFile",
    "Suites",
    "expectations",
    "for_root",
    "in_suite",
    "load_suite",
    "narrow",
    "parse_suite",
    "suite_paths",
    "unmatched_paths",
]
