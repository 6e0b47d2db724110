"""A pod to look into a job with: the same image, cards and mounts, and a shell or a notebook. Pure."""

from __future__ import annotations

import copy
import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ci.errors import UsageError
from ci.jobs.job import INDEX_VARIABLE, Job
from ci.jobs.kinds import NOTEBOOK_PORT
from ci.jobs.token import with_token, without_made_token
from ci.report.text import shell_line

DEBUG_LABEL = "spyre-ci.io/debug"
MAIN = "main"
# Nothing is left to be written when it has to go.
_GRACE_S = 5
# What is of the job's own command and means nothing to another.
_OF_THE_COMMAND = ("command", "args", "livenessProbe", "startupProbe", "lifecycle")


def apart(job: Job) -> Job:
    """The job under a name of its own: nothing finds its pod, or a file of it, for the job itself."""
    named = replace(without_made_token(job), name=f"{job.name}-debug")
    return with_token(named)


def debug_manifest(
    manifest: Mapping[str, Any], *, seconds: int, index: int = 0, notebook: bool = False
) -> dict[str, Any]:
    """A pod as a job's or a server's template has it, which waits for whoever enters it.

    It has the name of what it was made of; see `apart`.

    Args:
        manifest: the rendered Job or Deployment; its ConfigMaps are wanted beside the pod.
        seconds: after which the pod is ended, cards with it.
        index: whose environment it has, of an Indexed Job.
        notebook: the image's notebook in place of a shell.

    Raises:
        UsageError: there is no such index, or no time.
    """
    pods = int(manifest["spec"].get("completions", 1))
    if not 0 <= index < pods:
        raise UsageError(f"there is no pod {index}", where="--index", remedy=f"give one of 0 to {pods - 1}")
    if seconds < 1:
        raise UsageError(
            f"{seconds} s are no time", where="--minutes", remedy="say how long the pod may be there"
        )
    template = copy.deepcopy(manifest["spec"]["template"])
    spec = template["spec"]
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        if manifest["kind"] == "Job":
            # The Job's controller would say it.
            container["env"] = [*container.get("env", []), {"name": INDEX_VARIABLE, "value": str(index)}]
    _wait(next(one for one in spec["containers"] if one["name"] == MAIN), seconds, notebook=notebook)
    spec |= {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": seconds,
        "terminationGracePeriodSeconds": _GRACE_S,
    }
    origin, said = manifest["metadata"], template.get("metadata", {})
    metadata = {
        "name": origin["name"],
        "namespace": origin["namespace"],
        "labels": {**origin.get("labels", {}), **said.get("labels", {}), DEBUG_LABEL: "true"},
        "annotations": dict(origin.get("annotations", {})),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _wait(container: dict[str, Any], seconds: int, *, notebook: bool) -> None:
    for key in _OF_THE_COMMAND:
        container.pop(key, None)
    if not notebook:
        # A server's probe stays: until somebody starts the server by hand, no Service leads here.
        container["command"] = ["sleep", str(seconds)]
        return
    container.pop("readinessProbe", None)
    container["args"] = ["notebook"]
    container["ports"] = [{"name": "notebook", "containerPort": NOTEBOOK_PORT}]


def how_to_enter(pod: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    """Lines that say how a pod is entered, what it would have run, and how it is ended.

    Args:
        pod: see `debug_manifest`.
        manifest: it was made of.
    """
    name = pod["metadata"]["name"]
    where = f"-n {shlex.quote(pod['metadata']['namespace'])}"
    main = next(one for one in manifest["spec"]["template"]["spec"]["containers"] if one["name"] == MAIN)
    words = [word.replace("$$", "$") for word in [*main.get("command", []), *main.get("args", [])]]
    behind = "" if main.get("command") else " (behind the image's entry)"
    port = next((one["containerPort"] for one in _ports(pod)), NOTEBOOK_PORT)
    minutes = math.ceil(pod["spec"]["activeDeadlineSeconds"] / 60)
    running = f"kubectl wait {where} --for=jsonpath='{{.status.phase}}'=Running pod/{name} --timeout=10m"
    return [
        f"once it runs:  {running}",
        f"a shell:       oc rsh {where} -c {MAIN} {name}",
        f"               kubectl exec {where} -it {name} -c {MAIN} -- sh",
        f"its port:      kubectl port-forward {where} pod/{name} {port}:{port}",
        f"               is http://127.0.0.1:{port} then",
        f"the job's own: {shell_line(words)}{behind}",
        f"to end it:     spyre-ci job cancel {where} {name}",
        f"               it ends by itself after {minutes:,} min",
    ]


def _ports(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    main = next(one for one in pod["spec"]["containers"] if one["name"] == MAIN)
    return list(main.get("ports", []))
