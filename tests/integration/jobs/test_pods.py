"""Pods of a job as they run: each with its slice, into a store that outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pod_site import RUN, Site

pytestmark = pytest.mark.integration


@pytest.fixture
def site(tree: Path) -> Site:
    return Site(tree)


def test_two_pods_on_a_shared_folder(site: Site) -> None:
    site.release()
    for index in (0, 1):
        code, out, err = site.pod(index)
        assert (code, err) == (1, ""), out
    journals = [path.name for path in sorted(Path(site.store).glob(f"{RUN}/pods/*/journal/*"))]
    assert journals == ["0-1.jsonl", "2-1.jsonl", "1-1.jsonl"]
    code, out, err = site.collect()
    assert (code, err) == (1, ""), out
    assert "gathered 7 files of pods" in out
    assert {name: (one.verdict, one.attempts) for name, one in site.results.items()} == site.plain()
