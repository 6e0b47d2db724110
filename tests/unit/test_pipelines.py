"""Pipelines hold no logic: they check out, call nox, and hand files on (law 8); and they trust little.

What act does not enforce when the workflows are executed (tests/heavy) is looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.config.pipeline_model import Timeouts

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SETUP = ROOT / ".github" / "actions" / "setup" / "action.yml"
PINS = yaml.safe_load((ROOT / ".github" / "actions" / "pins.yaml").read_text(encoding="utf-8"))
# Jobs that read the settings, so that those after them have their time-outs from there.
READERS = {"changes", "deal", "plan", "checks"}
workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def content_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = content_of(path)["jobs"]
    return found


def events(path: Path) -> dict[str, Any]:
    # YAML 1.1 takes the key `on` for a truth.
    found = {str(key): value for key, value in content_of(path).items()}["True"]
    return dict(found)


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job.get("steps", [])]


def needed(path: Path, name: str) -> set[str]:
    """Every job that a job comes after."""
    direct = set(jobs(path)[name].get("needs", []))
    return direct.union(*(needed(path, one) for one in direct))


def used() -> Iterator[tuple[str, str]]:
    """Each action with its pin and comment, as the files have them."""
    for path in [*WORKFLOWS, SETUP]:
        text = path.read_text(encoding="utf-8")
        yield from re.findall(r"^ *(?:- )?uses: ([^.\s]\S*) *(.*)$", text, re.MULTILINE)


def runs_nothing(job: dict[str, Any]) -> bool:
    """Whether a job is there for its condition or its group alone, and may do nothing."""
    return [step.get("run") for step in job["steps"]] == ["true"] and job["permissions"] == {}


@workflows
def test_a_job_calls_one_nox_session_and_nothing_else(path: Path) -> None:
    line = re.compile(r'nox -f \.\./toolkit/noxfile\.py -s [a-z]+( -- [\w ./,"$:+{}-]+)?')
    for name, job in jobs(path).items():
        if "uses" in job or runs_nothing(job):
            continue
        runs = [step for step in job["steps"] if "run" in step]
        # What was reported is sent once it is uploaded, whose address it tells; what an action publishes is
        # compared with the index before, and installed from there after.
        twice = (path.stem, name) in {("pytorch-tests", "report"), ("release", "publish")}
        assert len(runs) == (2 if twice else 1), name
        for step in runs:
            assert line.fullmatch(step["run"]), name
            assert "working-directory" not in step
        assert content_of(path)["defaults"] == {"run": {"working-directory": "project"}}


@workflows
def test_a_workflow_is_short_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 150


@workflows
def test_the_toolkit_that_sets_a_job_up_is_of_the_workflows_own_commit(path: Path) -> None:
    for name, job in jobs(path).items():
        used = [step for step in job.get("steps", []) if "uses" in step]
        if not used:
            continue
        assert used[0]["uses"].startswith("actions/checkout@"), name
        assert used[0]["with"] == {
            "path": "toolkit",
            "repository": "${{ job.workflow_repository }}",
            "ref": "${{ job.workflow_sha }}",
            "persist-credentials": False,
        }
        assert "./toolkit/.github/actions/setup" in [step["uses"] for step in used], name


def test_setting_up_installs_nox_and_nothing_else_and_hands_no_token_on() -> None:
    found = content_of(SETUP)["runs"]["steps"]
    index = "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"
    assert [step["run"] for step in found if "run" in step] == [
        "python -m pip install nox",
        f"echo '{index}' >> \"$GITHUB_ENV\"",
    ]
    (project,) = (step["with"] for step in found if step.get("uses", "").startswith("actions/checkout@"))
    assert (project["path"], project["persist-credentials"]) == ("project", False)


@workflows
def test_a_workflow_grants_and_trusts_little(path: Path) -> None:
    content = content_of(path)
    assert content["permissions"] == {}
    assert not {"pull_request_target"} & events(path).keys()
    assert all("permissions" in job for job in jobs(path).values())
    for step in steps(path):
        assert "${{" not in step.get("run", "")
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@workflows
def test_every_grant_says_why(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    grants = re.findall(r"^ +(?:permissions: \{)?[a-z-]+: (?:read|write)\b\}?(.*)$", text, re.MULTILINE)
    assert grants
    assert all(re.fullmatch(r" # \w.+", why) for why in grants)


@workflows
def test_who_may_write_checks_out_no_code_of_a_pull_request(path: Path) -> None:
    for name, job in jobs(path).items():
        writes = {right for right, level in job["permissions"].items() if level == "write"} - {"id-token"}
        if not writes:
            continue
        assert not {"pull_request", "merge_group"} & events(path).keys(), name
        # The project as the event names it, which for these events is the default branch or what was merged.
        used = [step for step in job["steps"] if re.search("checkout@|/setup$", step.get("uses", ""))]
        assert [one.get("with", {}).get("ref") for one in used] == ["${{ job.workflow_sha }}", None], name


@workflows
def test_every_job_has_a_timeout_from_the_settings_once_they_were_read(path: Path) -> None:
    for name, job in jobs(path).items():
        if "uses" in job:
            continue
        limit = job["timeout-minutes"]
        if runs_nothing(job):
            assert limit == 5
        elif isinstance(limit, int):
            # The gate speaks also where the settings could not be read.
            assert name == "gate" or not READERS & needed(path, name), name
            assert limit <= (180 if path.name == "toolkit-nightly.yml" else 60)
        else:
            assert re.search(r"timeouts|matrix\.timeout_minutes|inputs\.job\)\.timeout_minutes", limit), name


def test_the_timeouts_that_workflows_ask_for_are_settings() -> None:
    asked = {
        key
        for path in WORKFLOWS
        for key in re.findall(r"timeouts\b[^}]*\)\.(\w+) \}\}", path.read_text(encoding="utf-8"))
    }
    assert asked
    assert asked <= Timeouts.model_fields.keys()


@workflows
def test_a_newer_push_ends_runs_of_pull_requests_and_never_those_of_main(path: Path) -> None:
    content = content_of(path)
    if set(events(path)) == {"workflow_call"}:
        assert "concurrency" not in content  # the caller's holds
        return
    if path.stem == "upstream-pr":
        # Of the job: a dispatch that has nothing run must not end one that runs.
        job = content["jobs"]["pytorch"]
        assert "concurrency" not in content
        assert "if" in job
        content = job
    cancels = content["concurrency"].get("cancel-in-progress", False)
    assert content["concurrency"]["group"].startswith(path.stem)
    if cancels is True:
        assert "push" not in events(path)
        assert "schedule" not in events(path)
    else:
        assert cancels in {False, "${{ github.event_name == 'pull_request' }}"}
    if "pull_request" in events(path):
        assert cancels


def test_only_a_pull_requests_gate_has_the_name_that_branches_require() -> None:
    gates = {path.stem for path in WORKFLOWS for job in jobs(path).values() if job.get("name") == "gate"}
    assert gates == {"pull-request"}


def test_every_action_is_pinned_to_a_commit_that_is_listed_with_its_tag() -> None:
    found = set(used())
    assert found == {(f"{name}@{pin['sha']}", f"# {pin['tag']}") for name, pin in PINS.items()}
    assert all(re.fullmatch(r"[0-9a-f]{40}", pin["sha"]) for pin in PINS.values())


@pytest.mark.parametrize("name", ["pull-request.yml", "nightly.yml"])
def test_the_gate_needs_every_job_and_is_there_whatever_happens(name: str) -> None:
    path = ROOT / ".github" / "workflows" / name
    gate = jobs(path)["gate"]
    others = [one for one in jobs(path) if one != "gate"]
    assert gate["needs"] == others
    assert gate["if"] == "always()"
    (run,) = (step for step in gate["steps"] if "run" in step)
    assert run["env"] == {"NEEDS": "${{ toJSON(needs) }}"}
    assert run["run"].split("--expect ")[1] == ",".join(one for one in others if one != "changes")


def test_the_jobs_of_a_pull_request_run_as_changes_says() -> None:
    path = ROOT / ".github" / "workflows" / "pull-request.yml"
    called = ROOT / ".github" / "workflows" / "changes.yml"
    outputs = jobs(called)["changes"]["outputs"]
    assert events(called)["workflow_call"]["outputs"].keys() == outputs.keys()
    for name, job in jobs(path).items():
        if name in {"changes", "gate"}:
            continue
        asked = re.fullmatch(r"needs\.changes\.outputs\.(\w+) == 'true'", job["if"])
        assert asked, name
        # What the gate is told under the job's own name is what decided.
        assert asked[1] == name
        assert outputs[name] == f"${{{{ steps.changes.outputs.{name} }}}}"


def test_what_runs_on_cards_runs_in_the_image_as_the_settings_say() -> None:
    found = {}
    for path in WORKFLOWS:
        for step in steps(path):
            session = re.search(r" -s (shards|device)\b", step.get("run", ""))
            if session:
                found[path.stem] = step["env"]["SPYRE_CI_ENVIRONMENT"]
                # Nothing is set up where the image is used.
                (job,) = (one for one in jobs(path).values() if step in one.get("steps", []))
                told = [one.get("with", {}).get("environment") for one in job["steps"]]
                assert found[path.stem] in told
    deal = jobs(ROOT / ".github/workflows/plan.yml")["deal"]
    assert deal["outputs"]["environment"] == "${{ steps.deal.outputs.environment }}"
    assert found == {
        "pytorch-tests": "${{ needs.plan.outputs.environment }}",
        "shards": "${{ inputs.environment }}",
        "device-tests": "${{ inputs.environment }}",
    }


def test_a_pull_requests_device_tests_are_of_what_it_built() -> None:
    job = jobs(ROOT / ".github/workflows/pull-request.yml")["device"]
    assert "package" in job["needs"]
    assert job["with"]["tested"] == "${{ needs.changes.outputs.device_tested }}"


@workflows
def test_a_called_workflow_gets_the_rights_that_its_jobs_ask_for_and_inputs_that_it_has(path: Path) -> None:
    for name, job in jobs(path).items():
        if "uses" not in job:
            continue
        called = ROOT / job["uses"]
        wanted = {right for one in jobs(called).values() for right in one["permissions"].items()}
        assert wanted == set(job["permissions"].items()), name
        inputs = (events(called)["workflow_call"] or {}).get("inputs", {})
        assert job.get("with", {}).keys() <= inputs.keys(), name


@workflows
def test_others_can_call_it(path: Path) -> None:
    # What Jenkins starts is started in the repository that PyTorch's relay knows.
    own = {"hud-report.yml", "toolkit.yml", "toolkit-nightly.yml"}
    assert ("workflow_call" in events(path)) != (path.name in own)


def test_where_a_changes_tests_are_collected_nothing_is_decided() -> None:
    path = ROOT / ".github" / "workflows" / "plan.yml"
    found = jobs(path)
    assert "outputs" not in found["plan"]
    assert not re.search(r"(needs|jobs|steps)\.plan\.", path.read_text(encoding="utf-8"))
    # All after it hang on the job that deals, which has the same history to find the settings in.
    assert found["deal"]["needs"] == ["plan"]
    assert all("deal" in job["needs"] for name, job in found.items() if name not in {"plan", "deal"})
    (run,) = (step for step in found["deal"]["steps"] if "run" in step)
    assert " -s pipeline -- legs --for github " in run["run"]
    assert run["id"] == "deal"
    assert set(found["deal"]["outputs"].values()) == {
        f"${{{{ steps.deal.outputs.{name} }}}}" for name in found["deal"]["outputs"]
    }
    plan, deal = (found[name]["steps"][1]["with"]["fetch-depth"] for name in ("plan", "deal"))
    assert plan == deal


def test_looking_for_results_to_take_fails_nothing_and_takes_nothing_that_was_not_handed_on() -> None:
    path = ROOT / ".github" / "workflows" / "plan.yml"
    reuse = jobs(path)["reuse"]
    assert reuse["continue-on-error"] is True
    assert reuse["outputs"] == {"reused": "${{ steps.results.outcome == 'success' }}"}
    (handed,) = (step for step in reuse["steps"] if step.get("id") == "results")
    assert handed["uses"].startswith("actions/upload-artifact@")
    assert handed["if"] == "steps.reuse.outputs.reused == 'true'"
    kind = events(path)["workflow_call"]["outputs"]["kind"]["value"]
    assert kind == "${{ jobs.reuse.outputs.reused == 'true' && 'reused' || jobs.deal.outputs.kind }}"
    found = jobs(path.with_name("pytorch-tests.yml"))
    for name in ("shards", "more", "report"):
        assert "needs.plan.outputs.kind" in found[name]["if"]
        assert "reused" not in found[name]["if"]


def test_no_artifact_is_taken_for_that_of_another_call_plan_or_attempt() -> None:
    named = {
        str(step["with"]["name"])
        for path in WORKFLOWS
        for step in steps(path)
        if "upload-artifact@" in step.get("uses", "") and "run_attempt" in step["with"]["name"]
    }
    # Only a dot stands before an attempt: `results-2` is the results of the call that is named 2.
    assert named
    assert all(name.endswith(".${{ github.run_attempt }}") for name in named)
    report = jobs(ROOT / ".github" / "workflows" / "pytorch-tests.yml")["report"]
    (taken,) = (step["with"]["artifacts"] for step in report["steps"] if "setup" in step.get("uses", ""))
    assert taken[1:-1].split(",") == [
        "plan${{ env.CALL }}",
        "journal${{ env.CALL }}.${{ needs.plan.outputs.fingerprint }}.*",
        "begun${{ env.CALL }}",
    ]


def test_what_is_sent_to_the_hud_is_about_one_check_run_and_names_its_artifact() -> None:
    """A begin that got something travels to the job that reports, which sends what waits at its end."""
    folder = ROOT / ".github" / "workflows"
    found = jobs(folder / "plan.yml") | jobs(folder / "pytorch-tests.yml")
    sends = {}
    for name in ("begin", "report"):
        (sends[name],) = (step for step in found[name]["steps"] if "-s hud -- send " in step.get("run", ""))
        assert sends[name]["env"]["SPYRE_CI_CHECK_RUN_ID"] == "${{ job.check_run_id }}"
        # Reporting fails no run.
        assert sends[name]["continue-on-error"] is True
        assert found[name]["permissions"]["id-token"] == "write"
    assert found["report"]["steps"][-1] == sends["report"]
    assert sends["report"]["if"] == "always()"
    assert sends["report"]["env"]["SPYRE_CI_ARTIFACT_URL"] == "${{ steps.results.outputs.artifact-url }}"
    handed = found["begin"]["steps"][-1]["with"]
    assert handed["name"] == "begun${{ env.CALL }}"
    assert handed["path"].split() == ["project/runs/ci/dispatch.json", "project/runs/ci/outbox"]


def test_a_workflow_that_is_cancelled_reports_so() -> None:
    found = jobs(ROOT / ".github" / "workflows" / "pytorch-tests.yml")
    assert found["cancelled"]["if"] == "cancelled()"
    assert set(found["cancelled"]["needs"]) < set(found["report"]["needs"])
    assert found["report"]["env"] == {"SPYRE_CI_CANCELLED": "${{ needs.cancelled.result == 'success' }}"}


def test_what_pytorchs_relay_dispatches_is_listened_to() -> None:
    path = ROOT / ".github" / "workflows" / "upstream-pr.yml"
    assert events(path)["repository_dispatch"] == {"types": ["pull_request", "push"]}
    found = jobs(path)
    condition = found["pytorch"]["if"]
    assert '["opened", "reopened", "synchronize"]' in condition
    assert "github.event.action == 'push'" in condition
    assert ".action == 'closed' && !github.event.client_payload" in found["closed"]["if"]
    group = found["closed"]["concurrency"]["group"]
    assert group.replace(" }}", " || github.run_id }}") == found["pytorch"]["concurrency"]["group"]


# What tells one thing that has to happen from the next: of runs that wait in a group GitHub keeps the newest.
IDENTIFIED = {
    "release": "github.event.release.tag_name || github.sha",
    "image": "github.sha",
    "pr-comment": "github.event.workflow_run.id",
    "nightly": "github.run_id",
    "hud-report": "github.run_id",
}


@workflows
def test_nothing_that_has_to_happen_waits_in_a_group_where_another_takes_its_place(path: Path) -> None:
    group = content_of(path).get("concurrency", {"group": ""})["group"]
    assert IDENTIFIED.get(path.stem, "") in group
    if "pull_request.number" in group:
        # Two workflows of one repository that call this one are no runs of each other.
        assert "${{ github.workflow }}" in group


def test_the_token_of_a_job_is_shown_to_githubs_registry_alone() -> None:
    logins = [
        step["with"] for path in WORKFLOWS for step in steps(path) if "login-action@" in step.get("uses", "")
    ]
    assert [one["registry"] for one in logins] == ["ghcr.io"]


def test_only_a_release_that_was_merged_is_proved_and_only_what_is_proved_is_published() -> None:
    folder = ROOT / ".github" / "workflows"
    found, checks = jobs(folder / "release.yml"), jobs(folder / "release-checks.yml")
    for job, of in (
        (found["prove"], "checks"),
        (checks["pytorch"], "changes"),
        (checks["device"], "changes"),
    ):
        assert job["if"] == f"needs.{of}.outputs.release == 'true'"
    assert found["publish"]["needs"] == ["checks", "prove"]
    assert " ".join(found["publish"]["if"].split()) == (
        "${{ !cancelled() && needs.checks.result == 'success' && (needs.prove.result == 'success'"
        " || github.event_name == 'push' && needs.prove.result == 'skipped') }}"
    )
    # Who may upload runs on GitHub's own machines, whatever the settings say.
    assert found["publish"]["runs-on"] == found["prove"]["runs-on"] == "ubuntu-latest"
    assert found["publish"]["environment"] == "${{ github.event_name == 'release' && 'pypi' || 'testpypi' }}"
    minting = {name for name, job in found.items() if "id-token" in job["permissions"]}
    assert minting == {"checks", "publish"}


def test_lint_leaves_the_record_that_a_release_hands_on_whatever_the_project_has() -> None:
    found = jobs(ROOT / ".github" / "workflows" / "release-checks.yml")["lint"]["steps"]
    (run,) = (step["run"] for step in found if "run" in step)
    (path,) = (step["with"]["path"] for step in found if "upload-artifact@" in step.get("uses", ""))
    assert f"project/{run.partition(' --records ')[2]}/lint.json" == path


@pytest.mark.parametrize("name", ["pull-request.yml", "toolkit.yml"])
def test_what_a_branch_requires_is_there_for_pull_requests_and_merge_queues(name: str) -> None:
    # A required check that never comes keeps a queue waiting for ever.
    assert {"pull_request", "merge_group"} <= events(ROOT / ".github" / "workflows" / name).keys()


def test_a_change_cannot_take_the_emulated_device_out_of_its_own_job() -> None:
    found = jobs(ROOT / ".github" / "workflows" / "pull-request.yml")
    for name, wanted in (("unit", "false"), ("emulated", "true")):
        (run,) = (step for step in found[name]["steps"] if "run" in step)
        assert run["env"] == {"SPYRE_CI__PACKAGE__TESTS__EMULATED": wanted}
