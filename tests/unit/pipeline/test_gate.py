"""The gate is open only where every job is accounted for; whatever else is said, it is closed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.cli.app import run
from ci.core.errors import SpyreCiError
from ci.pipeline.gate import GateClosedError, Job, judge, read_needs, refuse_red

NAMES = ("lint", "unit", "pytorch")
RESULTS = ("success", "failure", "cancelled", "skipped")
Row = dict[str, Any]


def needs(changes: Row | None = None, **results: object) -> Row:
    rows = {"changes": changes or told()}
    return rows | {name: {"result": result, "outputs": {}} for name, result in results.items()}


def told(result: str = "success", **outputs: str) -> Row:
    return {"result": result, "outputs": dict.fromkeys(NAMES, "true") | outputs}


def is_open(jobs: list[Job]) -> bool:
    try:
        refuse_red(jobs)
    except GateClosedError:
        return False
    return True


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("failure", "failed, or ran out of time"),
        ("cancelled", "was cancelled"),
        ("skipped", "was skipped, but should have run"),
        ("timed_out", "has an unknown result"),
        ("Success", "has an unknown result"),
        ("", "has an unknown result"),
        (None, "has an unknown result"),
    ],
)
def test_any_other_end_of_a_job_closes_it(result: str | None, why: str) -> None:
    jobs = judge(needs(lint="success", unit=result, pytorch="success"), NAMES)
    assert [(one.name, one.why) for one in jobs if one.state == "red"] == [("unit", why)]
    with pytest.raises(GateClosedError, match="1 of 4 jobs keep the gate closed: unit") as caught:
        refuse_red(jobs)
    assert caught.value.remedy
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  \n", "NEEDS is not set"),
        ("{", "is not valid JSON"),
        ("[]", "is not a JSON object"),
        ('{"lint": {"result": "failure", "result": "success"}}', "a key occurs twice"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_needs_that_cannot_be_read_are_told(text: str, said: str) -> None:
    with pytest.raises(SpyreCiError, match=said) as caught:
        read_needs(text)
    assert (caught.value.exit_code, caught.value.where) == (2, "NEEDS (environment)")


def test_the_whole_truth_table() -> None:
    """Open exactly where each job succeeded, was left out by name, or failed without blocking."""
    runs = ("true", "false", None)
    for changes, result, runs_as, blocks in itertools.product(RESULTS, (*RESULTS, "x"), runs, runs):
        outputs = {"lint": runs_as, "lint_blocking": blocks}
        rows = {
            "changes": {"result": changes, "outputs": {k: v for k, v in outputs.items() if v is not None}},
            "lint": {"result": result, "outputs": {}},
        }
        fine = result == "success" or (result == "skipped" and runs_as == "false")
        tolerated = blocks == "false" and result in RESULTS
        assert is_open(judge(rows, ["lint"])) is (changes == "success" and (fine or tolerated)), rows


ANY = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(RESULTS)
ROWS = st.fixed_dictionaries(
    {}, optional={"result": ANY, "outputs": st.dictionaries(st.text(max_size=4), ANY)}
)
OUTPUTS = st.dictionaries(
    st.sampled_from([*NAMES, *(f"{one}_blocking" for one in NAMES), "changes", "changes_blocking"]),
    st.sampled_from(["true", "false", "", "False"]) | ANY,
)
CHANGES = st.fixed_dictionaries({}, optional={"result": st.sampled_from(RESULTS) | ANY, "outputs": OUTPUTS})
NEEDS = st.dictionaries(st.sampled_from([*NAMES, "extra"]), ROWS | ANY)


@given(rest=NEEDS, changes=CHANGES | ANY, expected=st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_it_is_never_open_unless_every_expected_job_is_accounted_for(
    rest: Row, changes: Any, expected: list[str]
) -> None:
    rows = read_needs(json.dumps(rest | {"changes": changes}))
    if not is_open(judge(rows, expected)):
        return
    assert changes["result"] == "success"
    outputs = changes.get("outputs", {})
    for name in expected:
        result = rows[name]["result"]
        left_out = result == "skipped" and outputs.get(name) == "false"
        tolerated = result in RESULTS and outputs.get(f"{name}_blocking") == "false"
        assert result == "success" or left_out or tolerated
    for name, row in rows.items():
        if name not in {"changes", *expected} and outputs.get(f"{name}_blocking") != "false":
            assert row["result"] in {"success", "skipped"}


def test_the_verb_tells_of_every_job_on_the_screen_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    rows = needs(
        told(unit="false", pytorch_blocking="false"), lint="success", unit="skipped", pytorch="failure"
    )
    monkeypatch.setenv("NEEDS", json.dumps(rows))
    assert run(["pipeline", "gate", "--expect", "lint, unit,pytorch,"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "changes  ok            succeeded",
        "lint     ok            succeeded",
        "unit     skipped       was not needed for what changed",
        "pytorch  not blocking  failed, or ran out of time",
    ]
    assert (
        "| `unit` | `skipped` | `was not needed for what changed` |" in (tmp_path / "summary.md").read_text()
    )
    monkeypatch.setenv("NEEDS", json.dumps(rows | {"::error::x\n::stop": {"result": "failure"}}))
    assert run(["pipeline", "gate", "--expect", "lint"]) == 1
    said = capsys.readouterr()
    assert "1 of 5 jobs keep the gate closed" in said.err
    assert not any(line.startswith("::") for line in (said.out + said.err).splitlines())
    assert run(["pipeline", "gate", "--expect", ",,"]) == 2
    assert "no job is expected" in capsys.readouterr().err
