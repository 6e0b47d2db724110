"""The pod that a job is looked into with, and the words that say how."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ci.errors import UsageError
from ci.jobs.debug import DEBUG_LABEL, apart, debug_manifest, how_to_enter
from ci.jobs.job import Job
from ci.jobs.labels import found_by
from ci.jobs.render import render
from ci.jobs.spec import Spec
from ci.jobs.token import with_token


def rendered(kind: str = "evaluation", **spec: Any) -> list[dict[str, Any]]:
    base: dict[str, Any] = {"version": 1, "kind": kind, "image": {"name": "quay.io/spyre/runtime:1"}}
    if kind == "evaluation":
        base["evaluation"] = {"command": ["evaluate", "--at", "{configs}", "$HOME; x"]}
    job = Job(
        spec=Spec.model_validate(base | spec),
        name="x-bold-fox-12345",
        run="a",
        image="quay.io/spyre/runtime:1",
        namespace="spyre",
        pods=2 if kind == "evaluation" else 1,
        deadline_s=60,
        files={"a.yaml": b"a: 1\n"} if kind == "evaluation" else {},
    )
    return render(job)


def own(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return next(one for one in manifests if one["kind"] in {"Job", "Deployment"})


def main(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in pod["spec"]["containers"] if one["name"] == "main")
    return found


def test_it_is_the_jobs_pod_and_waits() -> None:
    job = own(rendered(resources={"cards": 2, "tier": 1}, source={"bucket": "s3://models/small"}))
    pod = debug_manifest(job, seconds=3600, index=1)
    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", "x-bold-fox-12345")
    assert (pod["spec"]["restartPolicy"], pod["spec"]["activeDeadlineSeconds"]) == ("Never", 3600)
    labels = pod["metadata"]["labels"]
    assert labels[DEBUG_LABEL] == "true"
    # Whatever finds all of a job, to clean up, finds this as well.
    assert found_by("x-bold-fox-12345").items() <= labels.items()
    before, now = job["spec"]["template"]["spec"], pod["spec"]
    assert (main(pod)["command"], "args" in main(pod)) == (["sleep", "3600"], False)
    for key in ("image", "resources", "volumeMounts", "securityContext"):
        assert main(pod)[key] == before["containers"][0][key]
    for key in ("volumes", "schedulerName", "securityContext"):
        assert now[key] == before[key]
    for one in (*now["initContainers"], *now["containers"]):
        assert one["env"][-1] == {"name": "JOB_COMPLETION_INDEX", "value": "1"}
    # What was rendered is as it was.
    assert "sleep" not in str(job)


def test_a_server_leads_no_service_to_it_before_it_was_started_by_hand() -> None:
    server = own(rendered("serve", source={"bucket": "s3://models/small"}))
    pod = debug_manifest(server, seconds=60)
    assert "readinessProbe" in main(pod)
    assert "JOB_COMPLETION_INDEX" not in str(pod)
    notebook = debug_manifest(server, seconds=60, notebook=True)
    assert (main(notebook)["args"], "command" in main(notebook)) == (["notebook"], False)
    assert main(notebook)["ports"] == [{"name": "notebook", "containerPort": 8888}]
    assert "readinessProbe" not in main(notebook)


def test_it_has_a_name_of_its_own_and_the_notebooks_token_with_it() -> None:
    base = {"version": 1, "kind": "notebook", "image": {"name": "quay.io/spyre/runtime:1"}}
    job = Job(
        spec=Spec.model_validate(base),
        name="x-bold-fox-12345",
        run="a",
        image="quay.io/spyre/runtime:1",
        namespace="spyre",
        pods=1,
        deadline_s=60,
    )
    found = apart(with_token(job))
    assert found.name == "x-bold-fox-12345-debug"
    assert found.spec.notebook is not None
    assert found.spec.notebook.token == "x-bold-fox-12345-debug-token"
    own_token = replace(job, spec=Spec.model_validate({**base, "notebook": {"token": "mine"}}))
    kept = apart(own_token).spec.notebook
    assert kept is not None
    assert kept.token == "mine"


def test_how_it_is_entered_is_said_with_the_jobs_own_command() -> None:
    job = own(rendered())
    lines = "\n".join(how_to_enter(debug_manifest(job, seconds=60), job))
    assert "oc rsh -n spyre -c main x-bold-fox-12345" in lines
    assert "kubectl exec -n spyre -it x-bold-fox-12345 -c main -- sh" in lines
    assert "kubectl port-forward -n spyre pod/x-bold-fox-12345 8888:8888" in lines
    assert "evaluate --at /etc/spyre-ci/x-bold-fox-12345 '$HOME; x'" in lines
    assert "spyre-ci job cancel -n spyre x-bold-fox-12345" in lines
    server = own(rendered("serve", source={"bucket": "s3://models/small"}))
    served = "\n".join(how_to_enter(debug_manifest(server, seconds=60), server))
    assert "serve (behind the image's entry)" in served
    assert "8080:8080" in served


def test_a_pod_that_is_not_and_no_time_are_refused() -> None:
    job = own(rendered())
    with pytest.raises(UsageError, match="there is no pod 2"):
        debug_manifest(job, seconds=60, index=2)
    with pytest.raises(UsageError, match="0 s are no time"):
        debug_manifest(job, seconds=0)
