"""A job of the op suite on a real engine with emulated cards comes to what the plain run of its plan does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.report.results import read_results

Call = Callable[..., tuple[int, str, str]]
RUN = "small"
SHARDS = 2
# Of the op suite's first stage.
MOST_OF_IT = 250


def verdicts(folder: Path) -> dict[str, str]:
    return {one.id: one.verdict.value for one in read_results(folder / "results.jsonl.gz")}


@pytest.fixture
def planned(spyre_ci: Call, tmp_path: Path) -> Path:
    """A run that is planned and did not begin, where `runs` has it."""
    for words in (("collect",), ("select", "--percent", "5"), ("plan", "--shards", str(SHARDS))):
        code, out, err = spyre_ci(*words, "--run-dir", f"runs/{RUN}")
        assert code == 0, out + err
    return tmp_path / "runs" / RUN


@pytest.mark.nightly
@pytest.mark.parametrize(
    "cards",
    [
        pytest.param(2, id="one pod of two cards", marks=pytest.mark.soak),
        pytest.param(1, id="two pods of one card"),
    ],
)
def test_a_job_here_comes_to_the_verdicts_of_the_plain_run(
    spyre_ci: Call, planned: Path, op_suite_image: str, tmp_path: Path, cards: int
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(planned, plain)
    for words in (("run", "--cards", str(SHARDS)), ("report",)):
        code, out, err = spyre_ci(*words, "--run-dir", str(plain))
        assert code == 0, out + err
    spec = {
        "version": 1,
        "kind": "tests",
        # It is on this machine alone, where no registry has a digest of it.
        "image": {"name": op_suite_image, "allow_moving_tag": True},
        "resources": {"cards": cards},
        "store": {"volume": "results"},
        "tests": {"plan": RUN},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    pods = SHARDS // cards
    given = ("--local", "--network", "none", "--store", "out")
    code, out, err = spyre_ci("job", "submit", "spec.json", *given)
    said = " ".join((out + err).split())
    assert code == 0, said[-3000:]
    assert [f"pod {index}: done" in said for index in range(pods + 1)] == [True] * pods + [False]
    assert "on 2 cards" in said if cards == SHARDS else "on 1 card" in said
    assert len(verdicts(plain)) > MOST_OF_IT
    assert verdicts(planned) == verdicts(plain)
