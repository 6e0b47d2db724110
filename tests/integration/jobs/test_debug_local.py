"""A job's container here, entered by the engine's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from ci.errors import CommandError, UsageError
from ci.image.container import LABEL
from ci.jobs.debug_local import Look, entered, open_here
from ci.jobs.here import Here, conditions_of
from ci.jobs.job import Fetch

from .conftest import MakeJob

PIPED = Look(index=1, terminal=False)
TOKEN = "t0ps3cr3t"


def test_a_shell_has_the_jobs_mounts_and_environment_and_leaves_no_container(
    make_job: MakeJob, here: Here, client: docker.DockerClient
) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker's own command is not there")
    spec = {"store": {"volume": "claim"}, "parameters": {"TOKEN": {"secret": "models", "key": "token"}}}
    job = make_job("false", pods=2, files={"a.yaml": b"a: 1\n"}, spec=spec)
    lines: list[str] = []
    given = replace(here, environ={**here.environ, "PARAM_TOKEN": TOKEN})
    words = open_here(job, given, PIPED, echo=lines.append)
    # Of the engine's own command anybody sees the words.
    assert TOKEN not in " ".join(words + lines)
    typed = (
        'cat /etc/spyre-ci/*/a.yaml; echo "$JOB_COMPLETION_INDEX $PARAM_TOKEN" | tee /results/said; exit 7\n'
    )
    done = subprocess.run(words, input=typed, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (7, f"a: 1\n1 {TOKEN}\n"), done.stderr
    assert (here.results / "said").is_file()
    assert client.api.containers(all=True, filters={"label": f"{LABEL}.job={job.name}"}) == []
    assert lines == [f"what is at /scratch stays in {here.work}/{job.name}-debug/scratch"]


def test_what_cannot_be_fetched_ends_it(
    make_job: MakeJob, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fetch, "command", property(lambda _: ("/bin/false",)))
    job = make_job("true", spec={"source": {"bucket": "s3://models/small"}})
    with pytest.raises(CommandError, match="what the job fetches cannot be had"):
        open_here(job, here, Look(), echo=lambda _: None)


def test_an_index_that_is_not_and_a_missing_command_are_told(make_job: MakeJob, here: Here) -> None:
    with pytest.raises(UsageError, match="there is no pod 1"):
        open_here(make_job("true"), here, PIPED, echo=lambda _: None)
    with pytest.raises(CommandError, match="neither docker nor podman is installed"):
        open_here(make_job("true"), here, Look(), echo=lambda _: None, which=lambda _: None)


def test_a_notebook_is_the_images_role_with_its_port(make_job: MakeJob, here: Here, tmp_path: Path) -> None:
    given = replace(here, network="bridge", port=9999, environ=dict(os.environ))
    main = conditions_of(make_job("true"), 0, given, scratch=tmp_path, configs=tmp_path)
    found = entered(main, given, Look(notebook=True))
    assert (found.entrypoint, found.ports, found.interactive) == (None, {9999: 8888}, True)
    assert entered(main, given, Look()).ports == {}
