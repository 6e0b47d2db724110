"""PyTorch's real wheel and this project in an image, in which the main job runs its op suite."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest
from junitparser import JUnitXml

from ci.core.containers import Conditions, container, follow, take_out

pytestmark = pytest.mark.nightly

RUN_S = 1200
# Of the op suite's first stage.
MOST_OF_IT = 250
HOME = "/opt/spyre/home"


def test_the_op_suite_runs_in_the_image_and_its_report_comes_out(
    client: docker.DockerClient, op_suite_image: str, tmp_path: Path
) -> None:
    lines: list[str] = []
    with container(client, op_suite_image, ["spyre-ci", "pytorch"], Conditions()) as made:
        ended = follow(made, timeout_s=RUN_S, echo=lines.append)
        said = "\n".join(lines[-40:])
        assert take_out(made, f"{HOME}/runs", tmp_path / "runs"), said
    assert (ended.exit_code, ended.timed_out) == (0, False), said
    found = [JUnitXml.fromfile(str(path)) for path in (tmp_path / "runs").glob("*/junit/*.xml")]
    tests = sum(one.tests for one in found)
    assert tests > MOST_OF_IT
    assert sum(one.failures + one.errors for one in found) == 0
    assert f"{tests} tests, nothing failed and nothing is missing" in " ".join(said.split())
