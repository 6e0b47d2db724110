"""A job of the op suite on a real engine with emulated cards comes to what the plain run of its plan does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ci.jobs.here import Here, user_of
from ci.jobs.job import Job
from ci.jobs.local import run_here
from ci.jobs.slices import make_slices
from ci.jobs.spec import Spec
from ci.report.results import read_results
from test_selection.legs import Leg

pytestmark = pytest.mark.xdist_group("engine")

Call = Callable[..., tuple[int, str, str]]
RUN = "small"
# Of the op suite's first stage.
MOST_OF_IT = 250
LEGS = {
    "one pod of two cards": [Leg(shards=(0, 1), cards=2, expected_s=1)],
    "two pods of one card": [
        Leg(shards=(0,), cards=1, expected_s=1),
        Leg(shards=(1,), cards=1, expected_s=1),
    ],
}


def verdicts(folder: Path) -> dict[str, str]:
    return {one.id: one.verdict.value for one in read_results(folder / "results.jsonl.gz")}


@pytest.fixture
def planned(spyre_ci: Call, tmp_path: Path) -> Path:
    """A run that is planned and did not begin, where `runs` has it."""
    for words in (("collect",), ("select", "--percent", "5"), ("plan", "--shards", "2")):
        code, out, err = spyre_ci(*words, "--run-dir", f"runs/{RUN}")
        assert code == 0, out + err
    return tmp_path / "runs" / RUN


@pytest.mark.parametrize("legs", LEGS.values(), ids=LEGS)
def test_a_job_here_comes_to_the_verdicts_of_the_plain_run(
    spyre_ci: Call, planned: Path, op_suite_image: str, tmp_path: Path, legs: Sequence[Leg]
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(planned, plain)
    for words in (("run", "--cards", "2"), ("report",)):
        code, out, err = spyre_ci(*words, "--run-dir", str(plain))
        assert code == 0, out + err
    spec = {
        "version": 1,
        "kind": "tests",
        "image": {"name": op_suite_image},
        "resources": {"cards": legs[0].cards},
        "store": {"volume": "results"},
    }
    job = Job(
        spec=Spec.model_validate(spec),
        name=f"tests-{len(legs)}",
        run=RUN,
        image=op_suite_image,
        namespace="",
        pods=len(legs),
        deadline_s=1200,
        files=make_slices(planned, legs),
    )
    here = Here(
        results=tmp_path / "results",
        work=tmp_path / "work",
        environ=os.environ,
        user=user_of(os.getuid()),
        network="none",
        parallel=len(legs),
    )
    lines: list[str] = []
    ends, code = run_here(job, here, echo=lines.append)
    said = "\n".join(lines[-60:])
    assert (code, [one.pods for one in ends]) == (0, [1] * len(legs)), said
    code, out, err = spyre_ci("job", "collect", RUN, "--from", str(here.results))
    assert code == 0, out + err
    assert len(verdicts(plain)) > MOST_OF_IT
    assert verdicts(planned) == verdicts(plain)
