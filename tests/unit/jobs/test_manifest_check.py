"""The check of manifests can fail."""

from __future__ import annotations

import copy
import sys

import pytest

from ci.jobs.render import render
from tests.job_specs import job_of, spec_of
from tests.manifests import RELEASES, broken_rules, check_strictly, validator


def test_nine_releases_are_looked_at() -> None:
    assert (RELEASES[0], RELEASES[-1], len(RELEASES)) == ("1.28", "1.36", 9)


def test_where_the_schemas_are_not_installed_the_test_skips_and_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes_validate", None)
    with pytest.raises(pytest.skip.Exception, match="kubernetes-validate is not installed"):
        validator.__wrapped__()


def test_a_kind_without_a_schema_fails() -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "cards"}}
    with pytest.raises(AssertionError, match="no schema for LocalQueue kueue"):
        check_strictly([queue])


@pytest.mark.parametrize("release", ["1.99", "2.0"])
def test_a_release_without_schemas_fails(release: str) -> None:
    with pytest.raises(AssertionError, match="no schema for"):
        check_strictly(render(job_of(spec_of("notebook"))), [release])


def test_a_release_whose_schemas_are_missing_is_not_taken_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validator().utils, "all_versions", lambda: ["1.34.0", "1.36.0"])
    with pytest.raises(AssertionError, match=r"on 1\.35: 1\.34 was taken"):
        check_strictly(render(job_of(spec_of("notebook"))), ["1.35"])


@pytest.mark.parametrize("path", [(), ("spec",), ("spec", "template", "spec"), ("spec", "podFailurePolicy")])
def test_a_key_that_nobody_knows_fails_wherever_it_stands(path: tuple[str, ...]) -> None:
    manifest = copy.deepcopy(render(job_of(spec_of("notebook")))[-1])
    place = manifest
    for part in path:
        place = place[part]
    place["backofLimit"] = 1
    with pytest.raises(AssertionError, match="'backofLimit' was unexpected"):
        check_strictly([manifest], ["1.33"])


def test_a_value_of_another_type_fails() -> None:
    manifest = copy.deepcopy(render(job_of(spec_of("notebook")))[-1])
    manifest["spec"]["completions"] = "1"
    with pytest.raises(AssertionError, match=r"spec\.completions: '1' is not of type"):
        check_strictly([manifest], ["1.28"])


def test_rules_that_no_schema_tells_are_told() -> None:
    manifest = copy.deepcopy(render(job_of(spec_of("notebook")))[-1])
    del manifest["spec"]["backoffLimitPerIndex"]
    manifest["spec"]["podReplacementPolicy"] = "TerminatingOrFailed"
    manifest["spec"]["maxFailedIndexes"] = 2
    manifest["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].append(
        {"name": "models", "mountPath": "/scratch"}
    )
    assert broken_rules([manifest]) == [
        "Job: podReplacementPolicy with a podFailurePolicy",
        "Job: restartPolicy with a podFailurePolicy",
        "Job: FailIndex without backoffLimitPerIndex",
        "Job: maxFailedIndexes above completions",
        "Job: mount of models",
        "Job: a mountPath twice",
    ]
