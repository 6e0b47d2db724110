"""What must be green before a release may go to an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.package_model import Gate
from ci.core.errors import BadFileError, UsageError
from ci.package.evidence import run_from_json, run_to_json
from ci.package.gates import MERGE_STEPS, GateError, Override, Run, Wanted, judge, refuse_shut
from ci.package.records import Record
from ci.record.environment import RanIn

COMMIT = "ab" * 20
IMAGE = "registry.example/spyre@sha256:" + "1" * 64
FILES = {"x-1.0.tar.gz": "1" * 64, "x-1.0-py3-none-any.whl": "2" * 64}
WANTED = Wanted(
    gate="full",
    project="torch-spyre",
    version="1.0",
    files=FILES,
    commit=COMMIT,
    stage=2,
    percent=25,
    image=IMAGE,
)
RUN = Run(
    name="nightly-1", run_id=7, url="", stage=2, percent=25, exit_code=0, planned=100,
    verdicts={"passed": 98, "flaky": 2, "failed": 0}, pytorch="cd" * 20, commit="",
    ran_in=(RanIn(back_end=f"torch_spyre 1.0 at {COMMIT[:12]}", torch="2.13.0", image=IMAGE),), restricted="",
)  # fmt: skip


def ran(**changed: Any) -> Run:
    """The run, with changes of it or of what all of its tests ran in."""
    said = {name: changed.pop(name) for name in ("back_end", "image") if name in changed}
    return replace(RUN, ran_in=(replace(RUN.ran_in[0], **said),), **changed)


def record(step: str, **changed: Any) -> Record:
    files = [{"name": name, "sha256": digest} for name, digest in FILES.items()]
    return replace(
        Record(step=step, project="torch-spyre", commit=COMMIT, passed=True, details={"files": files}),
        **changed,
    )


GREEN: Mapping[str, Record | None] = {step: record(step) for step in MERGE_STEPS}


def word(check: str, **changed: Any) -> Override:
    return replace(
        Override(check=check, gate="full", by="Ada", reason="the linter is broken", at="2026-01-01"),
        **changed,
    )


def shut(wanted: Wanted, records: Mapping[str, Record | None] = GREEN, *runs: Run) -> list[str]:
    return [one.check for one in judge(wanted, records, runs).shut_by]


def test_a_green_commit_on_its_image_passes_every_gate() -> None:
    assert shut(WANTED, GREEN, RUN) == []
    assert shut(replace(WANTED, gate="merge", image="")) == []
    assert shut(replace(WANTED, gate="none", commit="", image=""), {}) == []


def test_the_gate_says_which_linters_did_not_look() -> None:
    linters = {"ruff": {"files": 0, "not_looked": "is in package.lint.skip\n::x"}, "zizmor": {"version": "1"}}
    records = {**GREEN, "lint": record("lint", details={"linters": linters})}
    found = {one.check: one.seen for one in judge(WANTED, records, [RUN]).findings}
    said = "passed, of abababababab; not looked at: ruff is in package.lint.skip\\n::x"
    assert found["lint"] == said


@pytest.mark.parametrize("step", MERGE_STEPS)
@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({"passed": False, "details": {}}, "failed, of abababababab"),
        ({"commit": "cd" * 20}, "is of cdcdcdcdcdcd"),
        ({"dirty": ("a.py",)}, "is of abababababab, changed"),
        ({"project": "other"}, "is of the project other"),
        (None, "was not run"),
    ],
)
@pytest.mark.parametrize("gate", ["merge", "full"])
def test_each_step_must_be_green_of_this_very_commit(
    gate: Gate, step: str, changed: dict[str, Any] | None, seen: str
) -> None:
    records = {**GREEN, step: None if changed is None else record(step, **changed)}
    judgement = judge(replace(WANTED, gate=gate), records, [RUN])
    assert [(one.check, one.seen) for one in judgement.shut_by if one.check != "files"] == [(step, seen)]


@pytest.mark.parametrize(
    ("changed", "check", "seen"),
    [
        ({"exit_code": 1}, "run", "ended with 1: 98 passed, 2 flaky"),
        ({"exit_code": 3}, "run", "ended with 3"),
        ({"planned": 0, "verdicts": {}}, "run", "no tests, of 0 planned"),
        ({"verdicts": {}}, "run", "no tests, of 100 planned"),
        ({"verdicts": {"passed": 99}}, "run", "99 passed, of 100 planned"),
        ({"verdicts": {"failed": 100}}, "run", "100 failed, of 100 planned"),
        ({"verdicts": {"skipped": 100}}, "run", "100 skipped, of 100 planned"),
        ({"verdicts": {"passed": 99, "failed": 1}}, "run", "99 passed, 1 failed"),
        ({"verdicts": {"passed": 99, "hardware": 1}}, "run", "99 passed, 1 hardware"),
        ({"verdicts": {"passed": 99, "infrastructure": 1}}, "run", "1 infrastructure"),
        ({"verdicts": {"passed": 99, "not_run": 1}}, "run", "1 not_run"),
        ({"verdicts": {"passed": 101, "skipped": -1}}, "run", "-1 skipped"),
        ({"verdicts": {"passed": 100, "perfect": 1}}, "run", "1 perfect"),
        ({"verdicts": {"passed": 98, "failed": 2}, "forgiven": 1}, "run", "2 failed (1 in quarantine)"),
        ({"stage": 1}, "stage", "is stage 1, 25 %"),
        ({"stage": None}, "stage", "is no stage, 25 %"),
        ({"percent": 5.0}, "stage", "is stage 2, 5 %"),
        ({"restricted": "files test_a.py"}, "stage", "only files test_a.py"),
        ({"image": ""}, "image", "no image that anybody named"),
        ({"image": IMAGE[:-1] + "2"}, "image", "ran in registry.example"),
        ({"back_end": "the emulated device"}, "device", "ran on the emulated device"),
        ({"back_end": "torch_spyre 1.0 at cdcdcdcdcdcd"}, "device", "1.0 at cdcdcdcdcdcd"),
        ({"back_end": f"torch_spyre 1.0 at {COMMIT[:12]}.dirty"}, "device", ".dirty"),
        ({"back_end": f"torch_spyre 1.0.dev1+g{COMMIT[:9]}.dirty", "commit": COMMIT}, "device", ".dirty"),
        ({"back_end": "torch_spyre 1.0"}, "device", "checked out: an unknown commit"),
        ({"back_end": "torch_spyre 0.9", "commit": COMMIT}, "device", "torch_spyre 0.9, checked out"),
        ({"back_end": "torch_spyre", "commit": COMMIT}, "device", "torch_spyre, checked out"),
        ({"back_end": "", "commit": COMMIT}, "device", "an unknown back end"),
        ({"back_end": f"torch_other 1.0 at {COMMIT[:12]}"}, "device", "with the back end torch_other"),
    ],
)
def test_only_a_green_full_run_of_the_stage_in_force_opens_the_full_gate(
    changed: dict[str, Any], check: str, seen: str
) -> None:
    judgement = judge(WANTED, GREEN, [ran(**changed)])
    assert [one.check for one in judgement.shut_by] == [check]
    assert seen in judgement.shut_by[0].seen


@pytest.mark.parametrize(
    "back_end",
    [f"torch_spyre 1.0.dev3+g{COMMIT[:9]}", f"torch_spyre 1.0 at {COMMIT[:12]}", "torch_spyre 1.0"],
)
def test_the_back_ends_commit_is_known_by_its_version_or_the_ci(back_end: str) -> None:
    assert shut(WANTED, GREEN, ran(back_end=back_end, commit=COMMIT)) == []


def test_a_run_that_does_not_say_what_it_ran_in_proves_neither_image_nor_device() -> None:
    judgement = judge(WANTED, GREEN, [replace(RUN, ran_in=(), commit=COMMIT)])
    assert {one.check: one.seen for one in judgement.shut_by} == {
        "image": "nightly-1 ran in nobody knows what",
        "device": f"an unknown back end, checked out: {COMMIT[:12]}",
    }
    assert "SPYRE_CI_IMAGE saying so where its tests run" in judgement.shut_by[0].remedy


def test_one_leg_on_something_else_shuts_the_gate() -> None:
    (good,) = RUN.ran_in
    emulated = replace(RUN, ran_in=(good, replace(good, back_end="the emulated device")))
    (finding,) = judge(WANTED, GREEN, [emulated]).shut_by
    assert (finding.check, "the emulated device, torch_spyre 1.0" in finding.seen) == ("device", True)
    elsewhere = replace(RUN, ran_in=(good, replace(good, image="")))
    seen = {one.check: one.seen for one in judge(WANTED, GREEN, [elsewhere]).shut_by}
    assert "no image that anybody named, registry.example" in seen["image"]


def test_a_summary_from_before_legs_said_so_proves_nothing() -> None:
    content = {name: value for name, value in run_to_json(RUN).items() if name != "ran_in"}
    content["identity"] = {**content["identity"], "back_end": RUN.back_end, "image": IMAGE}
    old = run_from_json(content, "summary.json")  # type: ignore[arg-type]  # any place
    assert shut(WANTED, GREEN, old) == ["image", "device"]


def test_what_failed_in_quarantine_shuts_no_gate() -> None:
    assert shut(WANTED, GREEN, replace(RUN, verdicts={"passed": 98, "failed": 2}, forgiven=2)) == []


def test_a_project_that_is_no_back_end_is_told_that_a_run_says_nothing_of_it() -> None:
    wanted = replace(WANTED, project="spyre-ci")
    records = {step: record(step, project="spyre-ci") for step in MERGE_STEPS}
    finding = judge(wanted, records, [RUN]).shut_by[0]
    assert finding.check == "device"
    assert finding.seen == (
        "nightly-1 ran with the back end torch_spyre, and spyre-ci is released, of which that says nothing"
    )
    assert "publish it to an index whose gate is merge, or answer for it" in finding.remedy


def test_the_image_is_known_by_its_digest_in_whatever_registry() -> None:
    assert shut(WANTED, GREEN, ran(image="mirror.example/x@sha256:" + "1" * 64)) == []


def test_a_stage_of_nothing_is_green_without_tests() -> None:
    wanted = replace(WANTED, stage=0, percent=0)
    assert shut(wanted, GREEN, replace(RUN, stage=0, percent=0, planned=0, verdicts={})) == []


def test_one_run_that_holds_is_enough() -> None:
    assert shut(WANTED, GREEN, replace(RUN, exit_code=1), RUN) == []


def test_halves_of_two_runs_make_no_whole() -> None:
    assert shut(WANTED, GREEN, replace(RUN, exit_code=1), ran(image="")) in (["run"], ["image"])


def test_without_image_or_run_it_says_what_to_give() -> None:
    assert shut(replace(WANTED, image=""), GREEN, RUN) == ["image"]
    assert shut(WANTED, GREEN) == ["run", "stage", "image", "device"]
    assert shut(replace(WANTED, image=""), GREEN) == ["run", "stage", "image", "device"]


@pytest.mark.parametrize("check", ["run", "stage", "image", "device"])
def test_a_word_for_one_check_is_none_for_the_others(check: str) -> None:
    judgement = judge(WANTED, GREEN, [], [word(check)])
    assert [one.check for one in judgement.shut_by] == [
        one for one in ("run", "stage", "image", "device") if one != check
    ]


@pytest.mark.parametrize("gate", ["merge", "full"])
@pytest.mark.parametrize("files", [{}, {"x-1.0.tar.gz": "3" * 64}, {"y.whl": "1" * 64}])
def test_files_that_were_not_verified_shut_the_gate(gate: Gate, files: dict[str, str]) -> None:
    assert shut(replace(WANTED, gate=gate, files=files), GREEN, RUN) == ["files"]


def test_a_record_of_no_sense_shuts_the_gate() -> None:
    broken: list[list[object]] = [["x"], [{}], [{"name": "x-1.0.tar.gz"}]]
    for files in broken:
        assert shut(WANTED, {**GREEN, "verify": record("verify", details={"files": files})}, RUN) == ["files"]


def test_what_is_not_committed_is_not_published() -> None:
    assert shut(replace(WANTED, dirty=("a.py",)), GREEN, RUN) == ["commit"]
    assert "commit" in shut(replace(WANTED, commit=""), GREEN, RUN)


def test_who_answers_for_a_check_opens_it_and_is_recorded() -> None:
    judgement = judge(WANTED, {**GREEN, "lint": None}, [RUN], [word("lint")])
    assert judgement.shut_by == []
    assert judgement.as_json()["overrides"] == [
        {
            "check": "lint",
            "gate": "full",
            "by": "Ada",
            "reason": "the linter is broken",
            "at": "2026-01-01",
            "seen": "was not run",
        }
    ]
    assert judgement.as_json()["open"]


@pytest.mark.parametrize(
    ("step", "details", "seen"),
    [
        ("lint", {"by_linter": {"ruff": 2}}, ": 2 of ruff"),
        ("unit", {"counts": {"failing": ["test_a", "test_b"]}}, ": test_a, test_b"),
        ("unit", {"counts": None, "problem": "no test ran"}, ": no test ran"),
        ("build", {"differing": {"demo.so": ["1", "2"]}}, ": demo.so differs"),
        (
            "verify",
            {
                "checks": [
                    {"check": "licence", "passed": False, "seen": "none"},
                    {"check": "x", "passed": True},
                ]
            },
            ": licence (none)",
        ),
        ("verify", {"checks": 5}, ""),
    ],
)
def test_a_step_that_failed_says_what_did(step: str, details: dict[str, Any], seen: str) -> None:
    found = judge(WANTED, {**GREEN, step: record(step, passed=False, details=details)}, [RUN]).shut_by
    assert next(one.seen for one in found if one.check == step) == f"failed, of abababababab{seen}"


def test_of_what_is_too_long_to_show_every_word_counts() -> None:
    def seen(last: str) -> str:
        failing = [f"test_{number}" for number in range(200)] + [last]
        records = {**GREEN, "unit": record("unit", passed=False, details={"counts": {"failing": failing}})}
        return judge(WANTED, records, [RUN]).shut_by[0].seen

    assert len(seen("test_a")) < 400
    assert seen("test_a") == seen("test_a") != seen("test_b")


def test_a_word_for_what_was_not_run_is_none_for_what_failed_since() -> None:
    said = judge(WANTED, {**GREEN, "lint": None}, [RUN], [word("lint")]).overrides
    assert [one.seen for one in said] == ["was not run"]
    assert judge(WANTED, {**GREEN, "lint": None}, [RUN], said).shut_by == []
    now = judge(WANTED, {**GREEN, "lint": record("lint", passed=False)}, [RUN], said)
    assert [one.check for one in now.shut_by] == ["lint"]
    assert (now.overrides, now.lapsed) == ((), said)
    with pytest.raises(GateError, match="lint: failed, of abababababab\n    Ada answered for: was not run"):
        refuse_shut(now, "pypi")


@pytest.mark.parametrize("changed", [{"by": ""}, {"reason": " "}, {"gate": "merge"}])
def test_a_word_of_a_release_that_says_not_who_or_why_or_is_of_another_gate_is_none(
    changed: dict[str, Any],
) -> None:
    said = word("lint", seen="was not run", **changed)
    assert [one.check for one in judge(WANTED, {**GREEN, "lint": None}, [RUN], [said]).shut_by] == ["lint"]


def test_an_override_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="--override 'unit' answers for nothing: what did not pass is lint"):
        judge(WANTED, {**GREEN, "lint": None}, [RUN], [word("unit")])


@pytest.mark.parametrize(("by", "reason"), [("", "why"), ("who", " ")])
def test_an_override_without_name_or_reason_is_refused(by: str, reason: str) -> None:
    with pytest.raises(UsageError, match="says not who or why"):
        judge(WANTED, {**GREEN, "lint": None}, [RUN], [word("lint", by=by, reason=reason)])


def test_a_shut_gate_names_each_check_with_its_remedy() -> None:
    judgement = judge(WANTED, {**GREEN, "lint": None}, [])
    with pytest.raises(GateError) as caught:
        refuse_shut(judgement, "pypi")
    said = str(caught.value)
    assert said.startswith(
        "pypi: the full gate is shut\n  lint: was not run\n    remedy: run spyre-ci package lint"
    )
    assert "run: no run of PyTorch's tests was given" in said
    assert "--override CHECK" in said
    assert caught.value.exit_code == 1


# What is longer, or of more lines, is cut where it is read.
WORDS = st.text("abc +.", max_size=9).map(str.strip).map(lambda text: " ".join(text.split()))


@given(
    st.builds(
        Run,
        name=st.text(), run_id=st.integers(1), url=st.just(""), stage=st.none() | st.integers(0, 5),
        percent=st.floats(0, 100), exit_code=st.integers(0, 3), planned=st.integers(0),
        verdicts=st.dictionaries(st.text(), st.integers(0)), pytorch=st.text(),
        commit=st.sampled_from(["", COMMIT]), restricted=st.text(),
        ran_in=st.lists(st.builds(RanIn, back_end=WORDS, torch=WORDS, image=WORDS)).map(tuple),
        forgiven=st.integers(0),
    )
)  # fmt: skip
def test_a_run_is_read_as_it_was_written(run: Run) -> None:
    assert run_from_json(run_to_json(run), "x") == run  # type: ignore[arg-type]  # any place


@pytest.mark.parametrize(
    "changed",
    [
        {"quarantine": {"forgiven": 0.5}},
        {"exit_code": 0.9},
        {"exit_code": False},
        {"planned": float("inf")},
        {"verdicts": {"passed": "3"}},
    ],
)
def test_a_number_that_is_none_is_said(changed: dict[str, object]) -> None:
    with pytest.raises(BadFileError, match="is no whole number"):
        run_from_json({**run_to_json(RUN), **changed}, "summary.json")  # type: ignore[arg-type]  # any place


@pytest.mark.parametrize("changed", [{"quarantine": 5}, {"identity": {"run_id": float("inf")}}])
def test_a_summary_of_other_kinds_is_said(changed: dict[str, Any]) -> None:
    content = run_to_json(RUN)
    for key, value in changed.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) else value
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        run_from_json(content, "summary.json")  # type: ignore[arg-type]  # any place


def test_a_damaged_summary_is_said() -> None:
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        run_from_json({"identity": {}}, "summary.json")  # type: ignore[arg-type]  # any place
