"""Jenkinsfiles under the recording DSL, with a stand-in of nox: what happens, in which order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.jenkins_dsl import CREDENTIALS, URL, Recorded, Scenario, run_scenarios
from tests.jenkins_world import NO_TESTS, World, hasty, make_world

pytestmark = pytest.mark.gate

LEG = {"session": "shards", "branch": "leg-000"}
TOOLKIT_AWAY = {"step": "checkout", "session": "toolkit-repository", "kind": "fail"}
BY_HAND = "hudson.model.Cause$UserIdCause"
SHELL = "a b*;$(touch owned)`touch owned`'\""
NOT_THIS_JOBS = "This job is for pull requests of example/demo to main"
# What a build's job says of it, and what is said to that.
REFUSED = {
    "no pull request": ({"CHANGE_ID": ""}, NOT_THIS_JOBS),
    "no number": ({"CHANGE_ID": "7/head:refs/heads/main"}, NOT_THIS_JOBS),
    "another branch": ({"CHANGE_TARGET": "release"}, NOT_THIS_JOBS),
    "of no component": (
        {"JOB_NAME": "spyre/pr-nobody/PR-7"},
        "The job spyre/pr-nobody/PR-7 is of no component in components.json",
    ),
}
Builds = dict[str, Recorded]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("jenkins"))


@pytest.fixture(scope="module")
def builds(world: World, tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """All builds, in one JVM."""
    no_tests = world.pull_request("no tests")
    no_tests.environ = {**world.environ, "STAND_IN_PLAN": NO_TESTS}
    links = world.pull_request("links")
    links.environ = {**world.environ, "STAND_IN_LINKS": str(agents_home(world))}
    hangs = world.pull_request("GitHub hangs")
    hangs.environ = hasty(world)
    release_without_tests = world.release("release without tests")
    release_without_tests.environ = no_tests.environ
    moved = world.release("release that would be of another image")
    moved.environ = {**world.environ, "STAND_IN_DIGEST": "sha256:4567"}
    scenarios = [
        world.pull_request("green"),
        world.pull_request("red leg", LEG | {"kind": "fail_after"}),
        world.pull_request("red image", {"session": "image", "kind": "fail"}),
        world.pull_request("stopped", LEG | {"kind": "abort"}),
        world.pull_request("lost once", LEG | {"kind": "lose"}),
        world.pull_request("lost twice", LEG | {"kind": "lose", "times": 2}),
        world.pull_request("leg too long", LEG | {"kind": "hang_after"}),
        world.pull_request(
            "card taken", {"step": "lock", "branch": "device", "kind": "wait", "minutes": 1200}
        ),
        world.pull_request("no card", {"step": "lock", "branch": "device", "kind": "hang"}),
        world.pull_request("no agent", {"step": "node", "branch": "image", "kind": "hang"}),
        world.pull_request("image too long", {"session": "image", "branch": "image", "kind": "hang"}),
        world.pull_request("archive hangs", {"step": "archiveArtifacts", "branch": "device", "kind": "hang"}),
        world.pull_request(
            "card late and slow",
            {"step": "lock", "branch": "device", "kind": "wait", "minutes": 1200},
            {"session": "image", "branch": "device", "kind": "hang"},
        ),
        world.pull_request("archive away", {"step": "archiveArtifacts", "branch": "device", "kind": "fail"}),
        world.pull_request(
            "project away", {"step": "checkout", "session": "project-repository", "kind": "fail"}
        ),
        world.pull_request("toolkit away", TOOLKIT_AWAY | {"times": 99}),
        # There for the head, away when it is said that it runs and for its sources, there again at the end.
        world.pull_request(
            "toolkit back", TOOLKIT_AWAY | {"kind": "wait", "minutes": 0}, TOOLKIT_AWAY | {"times": 2}
        ),
        world.pull_request("no plan", {"session": "pipeline", "branch": "pytorch", "kind": "fail"}),
        *(refused(world, name) for name in REFUSED),
        world.pull_request("stranger", environ={"STAND_IN_STRANGER": "1"}),
        world.pull_request("stranger by hand", environ={"STAND_IN_STRANGER": "1"}, causes=(BY_HAND,)),
        world.pull_request(
            "stranger by scan",
            environ={"STAND_IN_STRANGER": "1"},
            causes=("jenkins.branch.BranchIndexingCause",),
        ),
        world.pull_request("red report", {"session": "report", "kind": "fail_after"}),
        world.pull_request("shell", job=f"pr-{SHELL}", component=SHELL, notify=""),
        no_tests,
        links,
        hangs,
        world.pull_request("agent late", {"step": "node", "kind": "wait", "minutes": 180}),
        world.nightly("night", hud="https://hud.example"),
        world.nightly("night too long", LEG | {"kind": "hang"}),
        world.release("release"),
        world.release("release too long", LEG | {"kind": "hang"}),
        release_without_tests,
        moved,
        world.release("release with a red leg", LEG | {"kind": "fail_after"}),
        world.release("release with a shut gate", {"session": "release", "kind": "fail"}),
        world.release("release of no tag", VERSION="9.9.9"),
        world.release("release of no version", VERSION="1.2"),
    ]
    return run_scenarios(scenarios, tmp_path_factory.mktemp("builds"))


def refused(world: World, name: str) -> Scenario:
    """A build whose job says something else of it."""
    made = world.pull_request(name)
    made.env = {**made.env, **REFUSED[name][0]}
    return made


def agents_home(world: World) -> Path:
    """A folder of the agent's outside of any workspace, with a file that is nobody else's."""
    home = world.folder / "home"
    home.mkdir()
    (home / "config.json").write_text("login", encoding="utf-8")
    return home


def test_what_a_link_leads_to_is_in_no_archive_and_no_stash(builds: Builds) -> None:
    # The plan lays one beside PyTorch, one leg one in its journal's folder, the other one in place of it.
    scratch = builds["links"].folder / "scratch"
    assert [path for name in ("archive", "stashes") for path in (scratch / name).rglob("config.json")] == []
    assert "toolkit/runs/ci/journal/0-1.jsonl" in builds["links"].archived()


def test_nothing_is_written_through_a_link_that_another_container_laid(builds: Builds) -> None:
    # The plan's leads to the noxfile, and a leg hands on a file of the same name.
    build = builds["links"]
    (reported,) = build.of("sh", session="report")
    assert reported["code"] == 0
    assert (Path(reported["folder"]) / "runs/ci/control/x").read_text(encoding="utf-8") == "owned\n"
    assert (Path(reported["folder"]) / "noxfile.py").read_text(encoding="utf-8") == ""


def test_a_green_build_runs_every_session_and_says_so(builds: Builds) -> None:
    green = builds["green"]
    assert green.result == "SUCCESS"
    assert green.sessions() == [
        "pipeline head", "pipeline status", "image build", "image test", "image tree", "plan --for",
        "pipeline legs", "shards --run-dir", "shards --run-dir", "report --run-dir", "pipeline status",
    ]  # fmt: skip


def words_of(build: Recorded, session: str, number: int = 0, verb: str = "") -> list[str]:
    found = [one["words"] for one in build.of("sh", session=session) if not verb or one["words"][0] == verb]
    words: list[str] = found[number]
    return words


def status_of(build: Recorded) -> str:
    words = words_of(build, "pipeline", -1, "status")
    return words[words.index("--state") + 1]


def test_the_change_is_merged_into_its_branch_and_its_head_gets_the_status(
    builds: Builds, world: World
) -> None:
    green = builds["green"]
    (checkout,) = green.of("checkout", url=str(world.project))
    assert checkout["merged"] == "refs/remotes/origin/main"
    assert words_of(green, "pipeline") == ["head", "--repository", "example/demo", "--pull-request", "7"]
    words = words_of(green, "pipeline", verb="status")
    assert words == [
        "status", "--repository", "example/demo", "--sha", world.head, "--context", "spyre-ci/jenkins",
        "--state", "pending", "--description", "running", "--url", URL,
    ]  # fmt: skip
    assert status_of(green) == "success"
    assert "demo=../project" in words_of(green, "image")


def test_cards_are_locked_by_number_and_a_leg_without_cards_locks_none(builds: Builds) -> None:
    locks = builds["green"].of("lock")
    assert [(one["branch"], one["quantity"]) for one in locks] == [("device", 1), ("leg-000", 1)]
    # By the agent's name: a lock of one host's cards is none of another's.
    assert [one["label"].rpartition("-agent-")[0] for one in locks] == ["spyre-cards", "spyre-cards"]


def test_every_line_has_a_time_out_and_a_leg_the_one_of_its_plan(builds: Builds) -> None:
    for build in builds.values():
        minutes = {one["branch"]: one["time"] for one in build.of("timeout", unit="MINUTES")}
        assert all(one["branch"] in minutes for one in build.of("sh"))
    # Around it stands the one for waiting.
    assert [one["time"] for one in builds["green"].of("timeout", branch="leg-001")] == [24 * 60 + 64, 32]


ENDS: dict[str, tuple[str, str]] = {
    "green": ("SUCCESS", "success"),
    "red leg": ("FAILURE", "failure"),
    "red image": ("FAILURE", "failure"),
    "stopped": ("ABORTED", "error"),
    "lost once": ("SUCCESS", "success"),
    "lost twice": ("FAILURE", "failure"),
    "leg too long": ("ABORTED", "error"),
    "card taken": ("SUCCESS", "success"),
    "agent late": ("SUCCESS", "success"),
    "GitHub hangs": ("SUCCESS", "success"),
    "no card": ("ABORTED", "error"),
    "no agent": ("ABORTED", "error"),
    "image too long": ("ABORTED", "error"),
    "archive hangs": ("ABORTED", "error"),
    "card late and slow": ("ABORTED", "error"),
    "archive away": ("FAILURE", "failure"),
    "project away": ("FAILURE", "failure"),
    "toolkit back": ("FAILURE", "failure"),
    "no plan": ("FAILURE", "failure"),
    "red report": ("FAILURE", "failure"),
    "no tests": ("SUCCESS", "success"),
}


NO_REPORT = {"red image", "project away", "toolkit back", "no plan", "no tests", "no agent", "image too long"}


@pytest.mark.parametrize("name", ENDS)
def test_however_a_build_ends_there_is_one_status_and_then_one_notification(
    builds: Builds, name: str
) -> None:
    build, (result, state) = builds[name], ENDS[name]
    assert (build.result, status_of(build)) == (result, state)
    assert build.position("sh", session="pipeline") < build.position("mail")
    (mail,) = build.of("mail")
    assert mail["subject"] == f"spyre/pr-demo/PR-7 #5: {result}"


@pytest.mark.parametrize("name", [name for name in ENDS if name not in NO_REPORT])
def test_however_the_legs_end_there_is_a_report_with_what_they_left(builds: Builds, name: str) -> None:
    build = builds[name]
    assert len(build.of("sh", session="report")) == 1
    order = [
        build.position("unlock", branch="leg-000"), build.position("sh", session="report"),
        build.position("junit", branch="pytorch"), build.position("archiveArtifacts", branch="pytorch"),
        build.position("sh", session="pipeline"), build.position("mail"),
    ]  # fmt: skip
    assert order == sorted(order)
    assert "toolkit/runs/ci/summary.md" in build.archived()
    assert ("toolkit/runs/ci/journal/1-2-1.jsonl" in build.archived()) == (name != "stopped")


@pytest.mark.parametrize("name", ENDS)
def test_every_lock_is_freed_after_what_was_done_under_it_is_archived(builds: Builds, name: str) -> None:
    build = builds[name]
    assert len(build.of("lock")) == len(build.of("unlock"))
    if build.of("lock", branch="device"):
        freed = build.position("unlock", branch="device")
        assert build.position("junit", branch="device") < freed


@pytest.mark.parametrize("name", ["card late and slow", "no card", "archive hangs"])
def test_a_time_out_ends_what_it_is_of_and_the_other_branches_go_on(builds: Builds, name: str) -> None:
    build = builds[name]
    assert build.of("stage", state="end", name="device")[0]["trouble"] == "Timeout has been exceeded"
    assert build.of("stage", state="end", name="pytorch")[0]["trouble"] is None
    # What was done under the time-out of the tests is archived after it has struck.
    archived = build.of("junit", branch="device")
    assert bool(archived) == (name != "no card")


def test_waiting_for_a_card_is_no_part_of_what_the_tests_may_take(builds: Builds) -> None:
    build = builds["card taken"]
    assert [one["time"] for one in build.of("timeout", branch="device")] == [24 * 60 + 360, 180]
    assert build.of("sh", branch="device")[0]["code"] == 0


def test_an_agent_that_is_lost_is_replaced_once(builds: Builds) -> None:
    once, twice = builds["lost once"], builds["lost twice"]
    assert [one["attempt"] for one in once.of("retry")] == [2]
    assert [one["attempt"] for one in twice.of("retry")] == [2]
    agents = [one["agent"] for one in once.of("node", branch="leg-000", state="begin")]
    assert len(set(agents)) == 2
    # What the leg would have left is not found, and everybody else's is.
    assert "toolkit/runs/ci/journal/0-1.jsonl" not in twice.archived()
    assert [one["message"] for one in twice.of("caught")] == ["leg-000 left no journal"]


def test_a_leg_that_was_too_long_leaves_its_journal(builds: Builds) -> None:
    # It is stashed outside of the time-out that struck, where Jenkins cuts nothing.
    build = builds["leg too long"]
    (kept,) = build.of("stash", name="journal-leg-000")
    struck = next(one for one in build.events if one["step"] == "fault")
    assert build.events.index(struck) < build.events.index(kept)
    assert "toolkit/runs/ci/journal/0-1.jsonl" in build.archived()


def test_a_failure_is_not_tried_again(builds: Builds) -> None:
    assert builds["red leg"].of("retry") == []
    assert builds["stopped"].of("retry") == []


def test_a_leg_that_failed_keeps_its_journal_and_the_other_leg_runs(builds: Builds) -> None:
    red = builds["red leg"]
    assert {"toolkit/runs/ci/journal/0-1.jsonl", "toolkit/runs/ci/journal/1-2-1.jsonl"} <= red.archived()
    assert red.of("branch", name="leg-001", state="end")[0]["trouble"] is None


def test_a_first_status_that_cannot_be_set_is_told_and_ends_nothing(builds: Builds) -> None:
    build = builds["GitHub hangs"]
    assert [one["message"] for one in build.of("caught")] == ["not told that it runs"]
    assert [one["code"] for one in build.of("sh", session="pipeline")] == [0, 124, 0, 0]


def test_without_the_toolkit_only_the_notification_is_left(builds: Builds) -> None:
    build = builds["toolkit away"]
    assert build.result == "FAILURE"
    assert build.of("sh") == []
    assert len(build.of("mail")) == 1


def test_what_comes_from_outside_reaches_nox_as_one_word(builds: Builds) -> None:
    build = builds["shell"]
    assert build.result == "SUCCESS"
    assert "a b*;$(touch owned)`touch owned`'\"=../project" in words_of(build, "image")
    assert list(build.folder.rglob("owned")) == []
    assert build.of("mail") == []
    for event in build.of("sh"):
        assert "touch" not in event["script"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_somebody_made_up_is_refused_before_anything_runs(builds: Builds, name: str) -> None:
    build = builds[name]
    assert (build.result, build.events[-1]["message"]) == ("FAILURE", REFUSED[name][1])
    assert build.of("node", "sh") == []


@pytest.mark.parametrize("name", ["stranger", "stranger by scan"])
def test_of_a_strangers_pull_request_nothing_is_fetched_and_nothing_said(
    builds: Builds, world: World, name: str
) -> None:
    build = builds[name]
    assert (build.result, build.sessions()) == ("FAILURE", ["pipeline head"])
    assert {one["url"] for one in build.of("checkout")} == {str(world.toolkit)}


def test_who_starts_a_build_by_hand_has_looked_at_it(builds: Builds) -> None:
    build = builds["stranger by hand"]
    assert (build.result, status_of(build)) == ("SUCCESS", "success")
    assert words_of(build, "pipeline")[-1] == "--of-anybody"


def test_what_runs_beside_the_project_is_never_the_pull_requests(builds: Builds, world: World) -> None:
    # `scm` of a multibranch job is the pull request.
    for build in builds.values():
        if build.of("env", name="SPYRE_HEAD"):
            assert build.of("checkout", scm="scm") == []
            assert build.of("checkout", url=str(world.toolkit))


def test_a_status_has_its_components_credentials(builds: Builds) -> None:
    found = [one["ids"] for one in builds["green"].of("withCredentials")]
    assert found == [["company-github"]] * 3


def test_legs_are_dealt_where_nothing_of_the_image_ran(builds: Builds) -> None:
    # The stand-in's plan, as the image's could, changes the noxfile beside it.
    green = builds["green"]
    (planned,), (dealt,) = (green.of("sh", session=name, branch="pytorch") for name in ("plan", "pipeline"))
    assert planned["folder"] != dealt["folder"]
    inside = [one["state"] for one in green.events[: green.events.index(dealt)] if one["step"] == "inside"]
    assert inside.count("begin") == inside.count("end") == 1


def test_a_stage_without_tests_runs_no_leg_and_reports_nothing(builds: Builds) -> None:
    build = builds["no tests"]
    assert build.of("branch") == build.of("sh", session="report") == []


def test_a_night_is_of_its_variant_and_reports_with_a_token(builds: Builds) -> None:
    night = builds["night"]
    assert night.result == "SUCCESS"
    assert words_of(night, "image")[:3] == ["build", "--variant", "main"]
    assert "nightly-main" in words_of(night, "image")
    assert night.of("withCredentials")[0]["ids"] == ["spyre-ci-hud"]
    assert {one["scm"] for one in night.of("checkout")} == {"scm"}


@pytest.mark.parametrize("name", ["night too long", "release too long"])
def test_what_takes_too_long_is_reported_and_publishes_nothing(builds: Builds, name: str) -> None:
    build = builds[name]
    assert build.result == "ABORTED"
    assert len(build.of("sh", session="report")) == len(build.of("mail")) == 1
    assert "toolkit/runs/ci/journal/1-2-1.jsonl" in build.archived()
    assert len(build.of("lock")) == len(build.of("unlock"))
    assert build.of("sh", session="publish") == []


def test_whether_a_release_wants_a_run_is_the_gates_to_say(builds: Builds) -> None:
    build = builds["release without tests"]
    assert build.result == "SUCCESS"
    assert "--run" not in words_of(build, "release")
    words = words_of(builds["release"], "release")
    assert words[-2:] == ["--run", "runs/ci"]


def test_a_release_publishes_what_was_tested_after_all_tests(builds: Builds) -> None:
    build = builds["release"]
    assert build.result == "SUCCESS"
    assert build.sessions()[-3:] == ["release ../project", "image build", "publish ../project"]
    words = words_of(build, "image", -1)
    assert words[-4:] == ["--version", "1.2.3", "--expect", "registry.example/runtime:1@sha256:0123"]
    # Nothing from elsewhere is a release.
    assert not any("--with" in one["words"] for one in build.of("sh", session="image"))
    words = words_of(build, "release")
    assert words[words.index("--image") + 1] == "registry.example/runtime:1@sha256:0123"


@pytest.mark.parametrize(
    "name",
    ["release with a red leg", "release with a shut gate", "release of no tag", "release of no version"],
)
def test_a_release_that_is_red_anywhere_publishes_nothing(builds: Builds, name: str) -> None:
    build = builds[name]
    assert build.result == "FAILURE"
    assert "publish ../project" not in build.sessions()
    assert not any("--version" in one["words"] for one in build.of("sh", session="image"))
    assert len(build.of("mail")) == 1


def test_an_image_that_is_not_the_tested_one_gets_no_version_and_publishes_nothing(builds: Builds) -> None:
    # Hours after the tests the stack file may come to another one.
    build = builds["release that would be of another image"]
    assert build.result == "FAILURE"
    assert build.sessions()[-1] == "image build"
    assert build.of("sh", session="image")[-1]["code"] == 1
    assert build.of("sh", session="publish") == []


def test_a_version_that_is_none_is_refused_before_anything_runs(builds: Builds) -> None:
    build = builds["release of no version"]
    assert build.of("node", "sh") == []
    assert build.of("trouble")[0]["message"] == "VERSION 1.2 is no semantic version such as 1.2.3"


def test_no_secret_is_in_a_record_a_line_or_an_archive(builds: Builds) -> None:
    for build in builds.values():
        texts = [(build.folder / "record.jsonl").read_text(encoding="utf-8")]
        texts += [path.read_text(encoding="utf-8") for path in Path(build.folder).rglob("*.sh")]
        assert not any(secret in text for secret in CREDENTIALS.values() for text in texts)


def test_a_build_runs_no_line_but_nox_and_the_one_that_removes_links(builds: Builds) -> None:
    lines: set[str] = {one["script"] for build in builds.values() for one in build.of("sh")}
    removes, only = sorted(lines, key=len)
    assert removes == "find -P . -type l -delete"
    assert only.splitlines()[-1].strip() == 'exec nox -s "$SPYRE_NOX_SESSION" -- "${words[@]}"'


def sessions_of_noxfile() -> set[str]:
    text = (Path(__file__).parents[2] / "noxfile.py").read_text(encoding="utf-8")
    return set(re.findall(r"@nox\.session[^\n]*\ndef (\w+)", text))


def test_every_session_is_one_of_the_noxfile(builds: Builds) -> None:
    called: set[Any] = {
        one["session"] for build in builds.values() for one in build.of("sh") if one["session"]
    }
    assert called - sessions_of_noxfile() == set()
